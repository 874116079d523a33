//! rdkafka for Rust, on its bundled librdkafka. tests/compat/matrix/python/checks.py says what programs of the matrix print.
mod transactions;

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::executor::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::util::get_rdkafka_version;
use rdkafka::{ClientContext, Offset, TopicPartitionList};

const PARTITIONS: i32 = 4;
const RECORDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Target {
    bootstrap: String,
    replication: i32,
    prefix: String,
}

/// Counts what was delivered.
#[derive(Clone, Default)]
struct Deliveries(Arc<Mutex<Vec<String>>>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        let outcome = match result {
            Ok(_) => String::new(),
            Err((error, _)) => error.to_string(),
        };
        self.0.lock().unwrap().push(outcome);
    }
}

/// A consumer of a group on a thread of its own.
struct Member {
    seen: Arc<Mutex<HashSet<String>>>,
    partitions: Arc<Mutex<usize>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Member {
    fn join(target: &Target, group: &str, topic: &str) -> Result<Member, Box<dyn std::error::Error>> {
        let consumer = target.consumer(group, "true")?;
        consumer.subscribe(&[topic])?;
        let member = Member {
            seen: Arc::default(),
            partitions: Arc::default(),
            over: Arc::default(),
            thread: None,
        };
        let (seen, partitions, over) = (member.seen.clone(), member.partitions.clone(), member.over.clone());
        let thread = spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
                    seen.lock().unwrap().insert(value_of(message.payload()));
                }
                *partitions.lock().unwrap() = consumer.assignment().map_or(0, |all| all.count());
            }
        });
        Ok(Member { thread: Some(thread), ..member })
    }

    fn partitions(&self) -> usize {
        *self.partitions.lock().unwrap()
    }

    fn seen(&self) -> HashSet<String> {
        self.seen.lock().unwrap().clone()
    }

    fn leave(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Target {
    fn name(&self, suffix: &str) -> String {
        format!("{}-{}", self.prefix, suffix)
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, Box<dyn std::error::Error>> {
        Ok(self.config().create()?)
    }

    fn consumer(&self, group: &str, commits: &str) -> Result<BaseConsumer, Box<dyn std::error::Error>> {
        Ok(self
            .config()
            .set("group.id", group)
            .set("enable.auto.commit", commits)
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "10000")
            .create()?)
    }

    fn create(&self, topic: &str) -> Outcome {
        let wanted = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(self.replication));
        for result in block_on(self.admin()?.create_topics(&[wanted], &AdminOptions::new()))? {
            result.map_err(|(name, code)| format!("{name}: {code}"))?;
        }
        Ok(())
    }

    fn produce(&self, topic: &str, values: &[String], partitions: i32, settings: &[(&str, &str)]) -> Outcome {
        let mut config = self.config();
        for (key, value) in settings {
            config.set(*key, *value);
        }
        let deliveries = Deliveries::default();
        let producer: BaseProducer<Deliveries> = config.create_with_context(deliveries.clone())?;
        for (number, value) in values.iter().enumerate() {
            let record = BaseRecord::<(), str>::to(topic).payload(value).partition(number as i32 % partitions);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(PATIENCE)?;
        let outcomes = deliveries.0.lock().unwrap().clone();
        equal(outcomes, vec![String::new(); values.len()])
    }

    fn consume(&self, topic: &str, count: usize, offset: i64) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        assigned(self.consumer(&self.name("assigned"), "false")?, topic, count, offset)
    }

    fn consume_isolated(&self, topic: &str, count: usize, level: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let mut config = self.config();
        let consumer = config.set("group.id", self.name("isolated")).set("isolation.level", level).create()?;
        assigned(consumer, topic, count, 0)
    }

    fn round_trip(&self, of: &str, settings: &[(&str, &str)]) -> Outcome {
        let topic = self.name(of);
        self.create(&topic)?;
        self.produce(&topic, &values_of(of, RECORDS), 1, settings)?;
        equal(self.consume(&topic, RECORDS, 0)?, values_of(of, RECORDS))
    }

    fn offsets_by_time(&self) -> Outcome {
        let topic = self.name("timed");
        self.create(&topic)?;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64 - 3_600_000;
        let producer: BaseProducer<Deliveries> = self.config().create_with_context(Deliveries::default())?;
        for (number, value) in values_of("timed", RECORDS).iter().enumerate() {
            let record = BaseRecord::<(), str>::to(&topic).payload(value).partition(0).timestamp(begin + 10 * number as i64);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(PATIENCE)?;
        let consumer = self.consumer(&self.name("timed"), "false")?;
        for number in [0, 7, RECORDS as i64 - 1, RECORDS as i64] {
            let mut asked = TopicPartitionList::new();
            asked.add_partition_offset(&topic, 0, Offset::Offset(begin + 10 * number - 3))?;
            let found = consumer.offsets_for_times(asked, PATIENCE)?;
            let expected = if number < RECORDS as i64 { Offset::Offset(number) } else { Offset::End };
            equal(found.find_partition(&topic, 0).map(|each| each.offset()), Some(expected))?;
        }
        Ok(())
    }

    fn group_share(&self, topic: &str) -> Outcome {
        let values = values_of("shared", 3 * RECORDS);
        let wanted = |count: usize| values[..count].iter().cloned().collect::<HashSet<_>>();
        self.produce(topic, &values[..RECORDS], PARTITIONS, &[])?;
        let mut first = Member::join(self, &self.name("share"), topic)?;
        until(|| first.partitions() == PARTITIONS as usize && first.seen().is_superset(&wanted(RECORDS)), "one has all")?;
        let mut second = Member::join(self, &self.name("share"), topic)?;
        let half = PARTITIONS as usize / 2;
        until(|| first.partitions() == half && second.partitions() == half, "both have half")?;
        self.produce(topic, &values[RECORDS..2 * RECORDS], PARTITIONS, &[])?;
        let both = |first: &Member, second: &Member| first.seen().union(&second.seen()).cloned().collect::<HashSet<_>>();
        until(|| both(&first, &second).is_superset(&wanted(2 * RECORDS)), "both together read all")?;
        equal(second.seen().is_empty(), false)?;
        second.leave();
        self.produce(topic, &values[2 * RECORDS..], PARTITIONS, &[])?;
        until(|| both(&first, &second).is_superset(&wanted(3 * RECORDS)), "who is left reads all")?;
        first.leave();
        Ok(())
    }

    fn read_some(&self, topic: &str, count: usize) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let consumer = self.consumer(&self.name("group"), "false")?;
        consumer.subscribe(&[topic])?;
        let mut values = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while values.len() < count && Instant::now() < deadline {
            if let Some(message) = consumer.poll(Duration::from_millis(200)) {
                let message = message?;
                values.push(value_of(message.payload()));
                consumer.commit_message(&message, CommitMode::Sync)?;
            }
        }
        Ok(values)
    }

    fn group_resume(&self, topic: &str) -> Outcome {
        let values = values_of("seek", RECORDS);
        equal(self.read_some(topic, RECORDS / 2)?, values[..RECORDS / 2].to_vec())?;
        equal(self.read_some(topic, RECORDS / 2)?, values[RECORDS / 2..].to_vec())
    }

    fn committed(&self, topic: &str) -> Result<Offset, Box<dyn std::error::Error>> {
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, 0);
        let found = self.consumer(&self.name("group"), "false")?.committed_offsets(asked, PATIENCE)?;
        Ok(found.find_partition(topic, 0).ok_or("the partition is missing")?.offset())
    }

    fn groups(&self) -> Result<Vec<String>, Box<dyn std::error::Error>> {
        let listed = self.consumer("nobody", "false")?.fetch_group_list(None, PATIENCE)?;
        Ok(listed.groups().iter().map(|group| group.name().to_owned()).collect())
    }

    fn describe_groups(&self, topic: &str) -> Outcome {
        let group = self.name("described");
        let mut member = Member::join(self, &group, topic)?;
        until(|| member.partitions() == PARTITIONS as usize, "the member has all")?;
        let listed = self.consumer("nobody", "false")?.fetch_group_list(Some(&group), PATIENCE)?;
        let found = listed.groups().first().map(|group| (group.state().to_owned(), group.members().len()));
        member.leave();
        equal(found, Some(("Stable".to_owned(), 1)))
    }

    fn partitions_of(&self, topic: &str) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
        let metadata = self.consumer("nobody", "false")?.fetch_metadata(None, PATIENCE)?;
        let found = metadata.topics().iter().find(|each| each.name() == topic);
        Ok(found.map_or(Vec::new(), |each| each.partitions().iter().map(|one| one.replicas().len()).collect()))
    }

    fn config_of(&self, topic: &str, key: &str) -> Result<String, Box<dyn std::error::Error>> {
        let asked = [ResourceSpecifier::Topic(topic)];
        let found = block_on(self.admin()?.describe_configs(&asked, &AdminOptions::new()))?.remove(0)?;
        Ok(found.get(key).and_then(|entry| entry.value.clone()).ok_or("not told")?)
    }

    fn delete_records(&self, topic: &str) -> Outcome {
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(topic, 0, Offset::Offset(10))?;
        block_on(self.admin()?.delete_records(&before, &AdminOptions::new()))?;
        equal(self.consume(topic, RECORDS - 10, 10)?, values_of("seek", RECORDS)[10..].to_vec())
    }
}

/// Reads so many records of partition 0 from an offset on, or fewer where they do not come in time.
fn assigned(
    consumer: BaseConsumer,
    topic: &str,
    count: usize,
    offset: i64,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut assigned = TopicPartitionList::new();
    assigned.add_partition_offset(topic, 0, Offset::Offset(offset))?;
    consumer.assign(&assigned)?;
    let mut values = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while values.len() < count && Instant::now() < deadline {
        if let Some(message) = consumer.poll(Duration::from_millis(200)) {
            values.push(value_of(message?.payload()));
        }
    }
    Ok(values)
}

fn value_of(payload: Option<&[u8]>) -> String {
    String::from_utf8_lossy(payload.unwrap_or_default()).into_owned()
}

fn values_of(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of} {number}")).collect()
}

fn until(is_so: impl Fn() -> bool, what: &str) -> Outcome {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("not within {PATIENCE:?}: {what}").into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn equal<T: PartialEq + Debug>(found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found:?} instead of {expected:?}").into())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("bootstrap address, replication factor, prefix");
    let target = Target { bootstrap: next(), replication: next().parse().expect("a number"), prefix: next() };
    let (topic, shared, group) = (target.name("topic"), target.name("shared"), target.name("group"));
    let options = AdminOptions::new();
    let t = &target;
    let compressed = |codec: &'static str| {
        Box::new(move || t.round_trip(codec, &[("compression.type", codec)])) as Box<dyn Fn() -> Outcome + '_>
    };
    let checks: Vec<(&str, Box<dyn Fn() -> Outcome + '_>)> = vec![
        ("create-topic", Box::new(|| t.create(&topic).and_then(|_| t.create(&shared)))),
        ("list-topics", Box::new(|| equal(t.partitions_of(&shared)?.len(), PARTITIONS as usize))),
        (
            "describe-topics",
            Box::new(|| equal(t.partitions_of(&topic)?, vec![t.replication as usize; PARTITIONS as usize])),
        ),
        ("produce", Box::new(|| t.round_trip("produce", &[("enable.idempotence", "false")]))),
        ("produce-acks-0", Box::new(|| t.round_trip("acks-0", &[("acks", "0")]))),
        ("produce-acks-1", Box::new(|| t.round_trip("acks-1", &[("acks", "1")]))),
        ("produce-idempotent", Box::new(|| t.round_trip("idempotent", &[("enable.idempotence", "true")]))),
        ("produce-gzip", compressed("gzip")),
        ("produce-snappy", compressed("snappy")),
        ("produce-lz4", compressed("lz4")),
        ("produce-zstd", compressed("zstd")),
        (
            "consume-assigned",
            Box::new(|| {
                t.produce(&topic, &values_of("seek", RECORDS), 1, &[])?;
                let half = RECORDS / 2;
                equal(t.consume(&topic, half, half as i64)?, values_of("seek", RECORDS)[half..].to_vec())
            }),
        ),
        (
            "list-offsets",
            Box::new(|| {
                let found = t.consumer("nobody", "false")?.fetch_watermarks(&topic, 0, PATIENCE)?;
                equal(found, (0, RECORDS as i64))
            }),
        ),
        ("offsets-by-time", Box::new(|| t.offsets_by_time())),
        ("group-share", Box::new(|| t.group_share(&shared))),
        ("group-resume", Box::new(|| t.group_resume(&topic))),
        ("transactions", Box::new(|| t.transactions())),
        ("transactional-offsets", Box::new(|| t.transactional_offsets())),
        ("list-groups", Box::new(|| equal(t.groups()?.contains(&group), true))),
        ("describe-groups", Box::new(|| t.describe_groups(&shared))),
        ("list-group-offsets", Box::new(|| equal(t.committed(&topic)?, Offset::Offset(RECORDS as i64)))),
        (
            "delete-groups",
            Box::new(|| {
                block_on(t.admin()?.delete_groups(&[&group], &options))?.remove(0).map_err(|(_, code)| code.to_string())?;
                equal(t.groups()?.contains(&group), false)
            }),
        ),
        ("describe-configs", Box::new(|| equal(t.config_of(&topic, "cleanup.policy")?, "delete".to_owned()))),
        (
            "alter-configs",
            Box::new(|| {
                let change = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("retention.ms", "123456");
                block_on(t.admin()?.alter_configs(&[change], &options))?.remove(0).map_err(|(_, code)| code.to_string())?;
                until(|| t.config_of(&topic, "retention.ms").is_ok_and(|value| value == "123456"), "the config is returned")
            }),
        ),
        ("delete-records", Box::new(|| t.delete_records(&topic))),
        (
            "create-partitions",
            Box::new(|| {
                let more = PARTITIONS as usize + 2;
                let wanted = NewPartitions::new(&topic, more);
                block_on(t.admin()?.create_partitions(&[wanted], &options))?
                    .remove(0)
                    .map_err(|(_, code)| code.to_string())?;
                until(|| t.partitions_of(&topic).is_ok_and(|found| found.len() == more), "two partitions more")
            }),
        ),
        (
            "describe-cluster",
            Box::new(|| {
                let metadata = t.consumer("nobody", "false")?.fetch_metadata(Some(&topic), PATIENCE)?;
                equal(metadata.brokers().len() >= t.replication as usize, true)
            }),
        ),
        (
            "delete-topic",
            Box::new(|| {
                block_on(t.admin()?.delete_topics(&[&topic], &options))?.remove(0).map_err(|(_, code)| code.to_string())?;
                until(|| t.partitions_of(&topic).is_ok_and(|found| found.is_empty()), "the topic is gone")
            }),
        ),
    ];
    println!("version 0.39.0 (librdkafka {})", get_rdkafka_version().1);
    println!("plan {}", checks.iter().map(|(capability, _)| *capability).collect::<Vec<_>>().join(" "));
    for (capability, check) in &checks {
        match check() {
            Ok(()) => println!("ok {capability}"),
            Err(error) => println!("failed {capability}: {}", error.to_string().replace('\n', " ")),
        }
    }
}
