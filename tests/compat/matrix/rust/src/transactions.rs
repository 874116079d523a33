//! Transactions: what was committed is read, what was aborted is not, of records and of offsets.
use rdkafka::consumer::Consumer;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::{equal, values_of, Deliveries, Outcome, Target, PATIENCE, RECORDS};

impl Target {
    fn transactional(&self, id: &str) -> Result<BaseProducer<Deliveries>, Box<dyn std::error::Error>> {
        let producer: BaseProducer<Deliveries> =
            self.config().set("transactional.id", self.name(id)).create_with_context(Deliveries::default())?;
        producer.init_transactions(PATIENCE)?;
        Ok(producer)
    }

    pub fn transactions(&self) -> Outcome {
        let topic = self.name("transactions");
        self.create(&topic)?;
        let producer = self.transactional("records")?;
        for of in ["one", "aborted", "two"] {
            producer.begin_transaction()?;
            for value in values_of(of, RECORDS) {
                let record = BaseRecord::<(), str>::to(&topic).payload(&value).partition(0);
                producer.send(record).map_err(|(error, _)| error)?;
            }
            producer.flush(PATIENCE)?;
            if of == "aborted" {
                producer.abort_transaction(PATIENCE)?;
            } else {
                producer.commit_transaction(PATIENCE)?;
            }
        }
        let [one, aborted, two] = ["one", "aborted", "two"].map(|of| values_of(of, RECORDS));
        equal(self.consume_isolated(&topic, 2 * RECORDS, "read_committed")?, [one.clone(), two.clone()].concat())?;
        equal(self.consume_isolated(&topic, 3 * RECORDS, "read_uncommitted")?, [one, aborted, two].concat())
    }

    pub fn transactional_offsets(&self) -> Outcome {
        let (topic, group) = (self.name("transactional-offsets"), self.name("transactional-group"));
        self.create(&topic)?;
        let producer = self.transactional("offsets")?;
        let consumer = self.consumer(&group, "false")?;
        for (offset, expected) in [(5, Offset::Invalid), (7, Offset::Offset(7))] {
            let mut sent = TopicPartitionList::new();
            sent.add_partition_offset(&topic, 0, Offset::Offset(offset))?;
            let metadata = consumer.group_metadata().ok_or("no metadata of the group")?;
            producer.begin_transaction()?;
            producer.send_offsets_to_transaction(&sent, &metadata, PATIENCE)?;
            if expected == Offset::Invalid {
                producer.abort_transaction(PATIENCE)?;
            } else {
                producer.commit_transaction(PATIENCE)?;
            }
            let mut asked = TopicPartitionList::new();
            asked.add_partition(&topic, 0);
            let found = consumer.committed_offsets(asked, PATIENCE)?;
            equal(found.find_partition(&topic, 0).map(|each| each.offset()), Some(expected))?;
        }
        Ok(())
    }
}
