//! rskafka: partitions, and topics; it knows no groups, transactions or configs, and writes with acks=all alone.
//! tests/compat/matrix/python/checks.py says what programs of the matrix print.
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use tokio::time::{sleep, timeout};

const PARTITIONS: i32 = 4;
const RECORDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);
const TIMEOUT_MS: i32 = 60_000;
const VERSION: &str = "0.6.0";

type Failure = Box<dyn Error>;
type Outcome = Result<(), Failure>;
type Check<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

struct Target {
    client: Client,
    replication: i16,
    prefix: String,
}

impl Target {
    fn name(&self, suffix: &str) -> String {
        format!("{}-{}", self.prefix, suffix)
    }

    async fn create(&self, topic: &str) -> Outcome {
        Ok(self.client.controller_client()?.create_topic(topic, PARTITIONS, self.replication, TIMEOUT_MS).await?)
    }

    /// The partitions of a topic; none if there is no such topic.
    async fn partitions_of(&self, topic: &str) -> Result<Vec<i32>, Failure> {
        let topics = self.client.list_topics().await?;
        Ok(topics.into_iter().find(|each| each.name == topic).map_or(Vec::new(), |each| each.partitions.into_iter().collect()))
    }

    async fn partition(&self, topic: &str) -> Result<PartitionClient, Failure> {
        Ok(self.client.partition_client(topic, 0, UnknownTopicHandling::Retry).await?)
    }

    async fn produce(&self, topic: &str, values: &[String], compression: Compression) -> Outcome {
        let records = values.iter().map(|value| record(value, Utc::now())).collect();
        let offsets = self.partition(topic).await?.produce(records, compression).await?;
        equal(offsets.len(), values.len())
    }

    async fn consume(&self, topic: &str, count: usize, from: i64) -> Result<Vec<String>, Failure> {
        let partition = self.partition(topic).await?;
        let (mut offset, mut values) = (from, Vec::new());
        let deadline = Instant::now() + PATIENCE;
        while values.len() < count && Instant::now() < deadline {
            let (records, _) = partition.fetch_records(offset, 1..1_000_000, 200).await?;
            for each in records {
                offset = each.offset + 1;
                values.push(String::from_utf8(each.record.value.unwrap_or_default())?);
            }
        }
        Ok(values)
    }

    async fn round_trip(&self, of: &str, compression: Compression) -> Outcome {
        let topic = self.name(of);
        self.create(&topic).await?;
        self.produce(&topic, &values_of(of), compression).await?;
        equal(self.consume(&topic, RECORDS, 0).await?, values_of(of))
    }

    async fn consume_assigned(&self, topic: &str) -> Outcome {
        self.produce(topic, &values_of("seek"), Compression::NoCompression).await?;
        let half = RECORDS / 2;
        equal(self.consume(topic, half, half as i64).await?, values_of("seek")[half..].to_vec())
    }

    async fn list_offsets(&self, topic: &str) -> Outcome {
        let partition = self.partition(topic).await?;
        equal(partition.get_offset(OffsetAt::Earliest).await?, 0)?;
        equal(partition.get_offset(OffsetAt::Latest).await?, RECORDS as i64)
    }

    async fn offsets_by_time(&self) -> Outcome {
        let topic = self.name("timed");
        self.create(&topic).await?;
        let partition = self.partition(&topic).await?;
        let begin = Utc::now() - TimeDelta::hours(1);
        let at = |number: usize| begin + TimeDelta::milliseconds(10 * number as i64);
        let records = values_of("timed").iter().enumerate().map(|(number, value)| record(value, at(number))).collect();
        partition.produce(records, Compression::NoCompression).await?;
        for number in [0, 7, RECORDS - 1] {
            let found = partition.get_offset(OffsetAt::Timestamp(at(number) - TimeDelta::milliseconds(3))).await?;
            equal(found, number as i64)?;
        }
        equal(partition.get_offset(OffsetAt::Timestamp(at(RECORDS))).await?, -1)
    }

    async fn delete_records(&self, topic: &str) -> Outcome {
        let partition = self.partition(topic).await?;
        partition.delete_records(10, TIMEOUT_MS).await?;
        equal(partition.get_offset(OffsetAt::Earliest).await?, 10)?;
        equal(self.consume(topic, RECORDS - 10, 10).await?, values_of("seek")[10..].to_vec())
    }

    async fn delete_topic(&self, topic: &str) -> Outcome {
        self.client.controller_client()?.delete_topic(topic, TIMEOUT_MS).await?;
        let deadline = Instant::now() + PATIENCE;
        while !self.partitions_of(topic).await?.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("not within {PATIENCE:?}: the topic is gone").into());
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn record(value: &str, timestamp: DateTime<Utc>) -> Record {
    Record { key: None, value: Some(value.as_bytes().to_vec()), headers: BTreeMap::new(), timestamp }
}

fn values_of(of: &str) -> Vec<String> {
    (0..RECORDS).map(|number| format!("{of} {number}")).collect()
}

fn equal<T: PartialEq + Debug>(found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found:?} instead of {expected:?}").into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("bootstrap address, replication factor, prefix");
    let (bootstrap, replication, prefix) = (next(), next().parse()?, next());
    let target = Target { client: ClientBuilder::new(vec![bootstrap]).build().await?, replication, prefix };
    let t = &target;
    let (topic, shared) = (&t.name("topic"), &t.name("shared"));
    let checks: Vec<(&str, Check<'_>)> = vec![
        (
            "create-topic",
            Box::pin(async move {
                t.create(topic).await?;
                t.create(shared).await
            }),
        ),
        ("list-topics", Box::pin(async move { equal(t.partitions_of(shared).await?, (0..PARTITIONS).collect()) })),
        ("produce", Box::pin(t.round_trip("produce", Compression::NoCompression))),
        ("produce-gzip", Box::pin(t.round_trip("gzip", Compression::Gzip))),
        ("produce-snappy", Box::pin(t.round_trip("snappy", Compression::Snappy))),
        ("produce-lz4", Box::pin(t.round_trip("lz4", Compression::Lz4))),
        ("produce-zstd", Box::pin(t.round_trip("zstd", Compression::Zstd))),
        ("consume-assigned", Box::pin(t.consume_assigned(topic))),
        ("list-offsets", Box::pin(t.list_offsets(topic))),
        ("offsets-by-time", Box::pin(t.offsets_by_time())),
        ("delete-records", Box::pin(t.delete_records(topic))),
        ("delete-topic", Box::pin(t.delete_topic(topic))),
    ];
    println!("version {VERSION}");
    println!("lacks transactions");
    println!("plan {}", checks.iter().map(|(capability, _)| *capability).collect::<Vec<_>>().join(" "));
    for (capability, check) in checks {
        match timeout(3 * PATIENCE, check).await {
            Ok(Ok(())) => println!("ok {capability}"),
            Ok(Err(error)) => println!("failed {capability}: {}", error.to_string().replace('\n', " ")),
            Err(_) => println!("failed {capability}: not done within {:?}", 3 * PATIENCE),
        }
    }
    Ok(())
}
