import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.OffsetAndMetadata;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.classic.ClassicGroupState;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue.MemberMetadata;
import org.apache.kafka.coordinator.group.generated.LegacyOffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.LegacyOffsetCommitValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Records of `__consumer_offsets` by Kafka's own coordinator of groups, as lines `name TAB key TAB value` in hex, a
 * tombstone's value being "-"; and the partitions that it gives to groups, `partition of TAB group TAB number`.
 */
public class KafkaGroups {
    static final long WALL_MS = 1_700_000_000_000L;
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] args) {
        written();
        everyVersion();
        for (String group : List.of("", "a", "my-group", "polygenelubricants", "group-\u00e9", "\ud83d\ude00-orders", "x".repeat(300))) {
            int partition = Utils.abs(group.hashCode()) % 50;
            System.out.println("partition of\t" + hex(group.getBytes(StandardCharsets.UTF_8)) + "\t" + partition);
        }
    }

    /** What the coordinator of 4.4 itself writes, in the versions that it chooses. */
    static void written() {
        Uuid unknown = Uuid.ZERO_UUID;
        print("written offset", offset(OptionalInt.of(3), "note \u00e9", OptionalLong.empty(), unknown));
        print("written offset without epoch", offset(OptionalInt.empty(), "", OptionalLong.empty(), unknown));
        print("written offset with expiry", offset(OptionalInt.empty(), "note", OptionalLong.of(WALL_MS + 10), unknown));
        print("written offset with topic id", offset(OptionalInt.of(3), "", OptionalLong.empty(), new Uuid(1, 2)));
        print("written offset tombstone", GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("group", "topic", 7));
        ClassicGroup group = group(5, "range", "member");
        group.add(member("member", Optional.empty()));
        group.add(member("static", Optional.of("instance")));
        Map<String, byte[]> shares = Map.of("member", bytes("share"), "static", bytes("its share"));
        print("written group", GroupCoordinatorRecordHelpers.newGroupMetadataRecord(group, shares));
        print("written empty group", GroupCoordinatorRecordHelpers.newGroupMetadataRecord(group(6, null, null), Map.of()));
        print("written new group", GroupCoordinatorRecordHelpers.newEmptyGroupMetadataRecord(group(0, null, null)));
        print("written group tombstone", GroupCoordinatorRecordHelpers.newGroupMetadataTombstoneRecord("group"));
    }

    /** What any Kafka may have written, or may read. */
    static void everyVersion() {
        print("offset 0, key 0", record(
            new LegacyOffsetCommitKey().setGroup("group").setTopic("topic").setPartition(7),
            new LegacyOffsetCommitValue().setOffset(42).setMetadata("note").setCommitTimestamp(WALL_MS), 0));
        OffsetCommitKey key = new OffsetCommitKey().setGroup("group").setTopic("topic").setPartition(7);
        for (int version = 0; version <= OffsetCommitValue.HIGHEST_SUPPORTED_VERSION; version++) {
            OffsetCommitValue value = new OffsetCommitValue().setOffset(42).setLeaderEpoch(3).setMetadata("note")
                .setCommitTimestamp(WALL_MS).setExpireTimestamp(version == 1 ? WALL_MS + 10 : -1)
                .setTopicId(new Uuid(1, 2));
            print("offset " + version, record(key, value, version));
        }
        for (int version = 0; version <= GroupMetadataValue.HIGHEST_SUPPORTED_VERSION; version++) {
            List<MemberMetadata> members = new ArrayList<>();
            members.add(metadata("member", null, "share"));
            members.add(metadata("static", "instance", "its share"));
            GroupMetadataValue value = new GroupMetadataValue().setProtocolType("consumer").setGeneration(5)
                .setProtocol("range").setLeader("member").setCurrentStateTimestamp(WALL_MS).setMembers(members);
            print("group " + version, record(new GroupMetadataKey().setGroup("group"), value, version));
        }
    }

    static CoordinatorRecord offset(OptionalInt leaderEpoch, String metadata, OptionalLong expireMs, Uuid topicId) {
        OffsetAndMetadata value = new OffsetAndMetadata(42, leaderEpoch, metadata, WALL_MS, expireMs, topicId);
        return GroupCoordinatorRecordHelpers.newOffsetCommitRecord("group", "topic", 7, value);
    }

    static ClassicGroup group(int generation, String protocol, String leader) {
        return new ClassicGroup(new LogContext(), "group", ClassicGroupState.EMPTY, Time.SYSTEM, generation,
            generation == 0 ? Optional.empty() : Optional.of("consumer"),
            Optional.ofNullable(protocol), Optional.ofNullable(leader),
            generation == 0 ? Optional.empty() : Optional.of(WALL_MS));
    }

    static ClassicGroupMember member(String id, Optional<String> instance) {
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestProtocol().setName("range").setMetadata(bytes("metadata")));
        return new ClassicGroupMember(id, instance, "client", "/10.0.0.7", 60_000, 10_000, "consumer", protocols);
    }

    static MemberMetadata metadata(String id, String instance, String share) {
        return new MemberMetadata().setMemberId(id).setGroupInstanceId(instance).setClientId("client")
            .setClientHost("/10.0.0.7").setRebalanceTimeout(60_000).setSessionTimeout(10_000)
            .setSubscription(bytes("metadata")).setAssignment(bytes(share));
    }

    static CoordinatorRecord record(ApiMessage key, ApiMessage value, int version) {
        return CoordinatorRecord.record(key, new ApiMessageAndVersion(value, (short) version));
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void print(String name, CoordinatorRecord record) {
        byte[] value = SERDE.serializeValue(record);
        String shown = value == null ? "-" : hex(value);
        System.out.println(name + "\t" + hex(SERDE.serializeKey(record)) + "\t" + shown);
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
