// kafkajs, with the codecs that are packages of their own.
import { createRequire } from 'node:module'
import kafkajs from 'kafkajs'
import lz4 from 'lz4-napi'
import snappyCodec from 'kafkajs-snappy'
import * as zstd from '@bokuweb/zstd-wasm'
import {
  PARTITIONS, RECORDS, SECONDS, bootstrap, equal, includesAll, name, replication, run, sleep, until, valuesOf
} from './checks.mjs'

const { Kafka, CompressionCodecs, CompressionTypes, AclOperationTypes, AclPermissionTypes, AclResourceTypes,
  ConfigResourceTypes, ResourcePatternTypes, logLevel } = kafkajs
const { version } = createRequire(import.meta.url)('kafkajs/package.json')

CompressionCodecs[CompressionTypes.Snappy] = snappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrameSync(encoder.buffer),
  decompress: async buffer => lz4.decompressFrameSync(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer))
})

const kafka = new Kafka({ clientId: 'matrix', brokers: [bootstrap], logLevel: logLevel.ERROR })
const admin = kafka.admin()
const [TOPIC, SHARED, GROUP] = [name('topic'), name('shared'), name('group')]

const create = topic =>
  admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: replication }], waitForLeaders: true })

async function produce(topic, values, { partitions = 1, idempotent = false, acks = -1, compression = CompressionTypes.None } = {}) {
  const producer = kafka.producer({ idempotent })
  await producer.connect()
  const messages = values.map((value, number) => ({ value, partition: number % partitions }))
  try {
    await producer.send({ topic, messages, acks, compression })
  } finally {
    await producer.disconnect()
  }
}

/** A member of a group: kafkajs knows no other consumer. */
async function join(groupId, topic, settings = {}) {
  const member = { seen: [], partitions: 0, consumer: kafka.consumer({ groupId, heartbeatInterval: 500, ...settings }) }
  const { GROUP_JOIN, REBALANCING } = member.consumer.events
  member.consumer.on(GROUP_JOIN, ({ payload }) => {
    member.partitions = (payload.memberAssignment[topic] ?? []).length
  })
  member.consumer.on(REBALANCING, () => {
    member.partitions = 0
  })
  await member.consumer.connect()
  await member.consumer.subscribe({ topic, fromBeginning: true })
  await member.consumer.run({ eachMessage: async ({ message }) => member.seen.push(message.value.toString()) })
  member.leave = () => member.consumer.disconnect()
  return member
}

/** kafkajs has no consumer by assignment: from its offset on, partition 0 is read by a group that seeks. */
async function consume(topic, count, offset = 0, settings = {}) {
  const found = []
  const consumer = kafka.consumer({ groupId: name(`seek-${topic}-${offset}-${count}`), ...settings })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => partition === 0 && found.push(message.value.toString())
  })
  consumer.seek({ topic, partition: 0, offset: String(offset) })
  const deadline = Date.now() + SECONDS * 1000
  while (found.length < count && Date.now() < deadline) await sleep(50)
  await consumer.disconnect()
  return found
}

async function roundTrip(of, settings) {
  await create(name(of))
  await produce(name(of), valuesOf(of), settings)
  equal(await consume(name(of), RECORDS), valuesOf(of))
}

async function readSome(count) {
  const found = []
  const consumer = kafka.consumer({ groupId: GROUP })
  await consumer.connect()
  await consumer.subscribe({ topic: TOPIC, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, partition, message }) => {
      if (found.length === count) return
      found.push(message.value.toString())
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
    }
  })
  const deadline = Date.now() + SECONDS * 1000
  while (found.length < count && Date.now() < deadline) await sleep(50)
  await sleep(200)
  await consumer.disconnect()
  return found
}

async function offsetsByTime() {
  const [topic, begin] = [name('timed'), Date.now() - 3600000]
  await create(topic)
  const producer = kafka.producer()
  await producer.connect()
  const messages = valuesOf('timed').map((value, number) => ({ value, partition: 0, timestamp: String(begin + 10 * number) }))
  await producer.send({ topic, messages })
  await producer.disconnect()
  // It puts the end in place of "none".
  for (const number of [0, 7, RECORDS - 1, RECORDS]) {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, begin + 10 * number - 3)
    equal(found.find(each => each.partition === 0).offset, String(number))
  }
}

async function withTransactions(id, use) {
  const producer = kafka.producer({ transactionalId: name(id), idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  try {
    await use(producer)
  } finally {
    await producer.disconnect()
  }
}

async function transactions() {
  const topic = name('transactions')
  await create(topic)
  await withTransactions('records', async producer => {
    for (const [of, end] of [['one', 'commit'], ['aborted', 'abort'], ['two', 'commit']]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: valuesOf(of).map(value => ({ value, partition: 0 })) })
      await transaction[end]()
    }
  })
  equal(await consume(topic, 2 * RECORDS), [...valuesOf('one'), ...valuesOf('two')])
  const all = [...valuesOf('one'), ...valuesOf('aborted'), ...valuesOf('two')]
  equal(await consume(topic, 3 * RECORDS, 0, { readUncommitted: true }), all)
}

async function transactionalOffsets() {
  const [topic, consumerGroupId] = [name('transactional-offsets'), name('transactional-group')]
  await create(topic)
  await withTransactions('offsets', async producer => {
    for (const [offset, end, expected] of [['5', 'abort', '-1'], ['7', 'commit', '7']]) {
      const transaction = await producer.transaction()
      await transaction.sendOffsets({ consumerGroupId, topics: [{ topic, partitions: [{ partition: 0, offset }] }] })
      await transaction[end]()
      await until(async () => (await offsetOf(consumerGroupId, topic)) === expected, `the group is at ${expected}`)
    }
  })
}

const groupIds = async () => (await admin.listGroups()).groups.map(each => each.groupId)

async function offsetOf(groupId, topic = TOPIC) {
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return partitions.find(each => each.partition === 0).offset
}

async function configOf(key) {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: TOPIC }]
  })
  return resources[0].configEntries.find(each => each.configName === key).configValue
}

async function partitionsOf(topic) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  return topics[0].partitions
}

async function refusalOf(call) {
  try {
    await call()
  } catch (error) {
    return error.type ?? error.errors?.[0]?.type ?? error.message
  }
  return 'none'
}

await zstd.init()
await admin.connect()
await run(version, {
  'create-topic': async () => {
    await create(TOPIC)
    await create(SHARED)
  },
  'list-topics': async () => equal(includesAll(await admin.listTopics(), [TOPIC, SHARED]), true),
  'describe-topics': async () => {
    equal((await partitionsOf(TOPIC)).map(each => each.replicas.length), Array(PARTITIONS).fill(replication))
  },
  produce: () => roundTrip('produce'),
  'produce-acks-0': () => roundTrip('acks-0', { acks: 0 }),
  'produce-acks-1': () => roundTrip('acks-1', { acks: 1 }),
  'produce-idempotent': () => roundTrip('idempotent', { idempotent: true }),
  'produce-gzip': () => roundTrip('gzip', { compression: CompressionTypes.GZIP }),
  'produce-snappy': () => roundTrip('snappy', { compression: CompressionTypes.Snappy }),
  'produce-lz4': () => roundTrip('lz4', { compression: CompressionTypes.LZ4 }),
  'produce-zstd': () => roundTrip('zstd', { compression: CompressionTypes.ZSTD }),
  'consume-seek': async () => {
    await produce(TOPIC, valuesOf('seek'))
    equal(await consume(TOPIC, RECORDS / 2, RECORDS / 2), valuesOf('seek').slice(RECORDS / 2))
  },
  'list-offsets': async () => {
    const { low, high } = (await admin.fetchTopicOffsets(TOPIC)).find(each => each.partition === 0)
    equal([low, high], ['0', String(RECORDS)])
  },
  'offsets-by-time': offsetsByTime,
  'group-share': async () => {
    const values = valuesOf('shared', 3 * RECORDS)
    await produce(SHARED, values.slice(0, RECORDS), { partitions: PARTITIONS })
    const first = await join(name('share'), SHARED)
    try {
      await until(() => first.partitions === PARTITIONS && includesAll(first.seen, values.slice(0, RECORDS)), 'the first has all')
      const second = await join(name('share'), SHARED)
      try {
        await until(() => [first, second].every(each => each.partitions === PARTITIONS / 2), 'both have half')
        await produce(SHARED, values.slice(RECORDS, 2 * RECORDS), { partitions: PARTITIONS })
        await until(() => includesAll([...first.seen, ...second.seen], values.slice(0, 2 * RECORDS)), 'both read all')
        equal(second.seen.length > 0, true)
      } finally {
        await second.leave()
      }
      await produce(SHARED, values.slice(2 * RECORDS), { partitions: PARTITIONS })
      await until(() => includesAll([...first.seen, ...second.seen], values), 'who is left reads all')
    } finally {
      await first.leave()
    }
  },
  'group-resume': async () => {
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(0, RECORDS / 2))
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(RECORDS / 2))
  },
  transactions,
  'transactional-offsets': transactionalOffsets,
  'list-groups': async () => equal((await groupIds()).includes(GROUP), true),
  'describe-groups': async () => {
    const member = await join(name('described'), SHARED)
    try {
      await until(() => member.partitions === PARTITIONS, 'the member has all')
      const { groups } = await admin.describeGroups([name('described')])
      equal([groups[0].state, groups[0].members.length], ['Stable', 1])
    } finally {
      await member.leave()
    }
  },
  'list-group-offsets': async () => equal(await offsetOf(GROUP), String(RECORDS)),
  'alter-group-offsets': async () => {
    await admin.setOffsets({ groupId: GROUP, topic: TOPIC, partitions: [{ partition: 0, offset: '7' }] })
    equal(await offsetOf(GROUP), '7')
  },
  'delete-groups': async () => {
    equal((await admin.deleteGroups([GROUP])).map(each => each.errorCode ?? 0), [0])
    equal((await groupIds()).includes(GROUP), false)
  },
  'describe-configs': async () => equal(await configOf('cleanup.policy'), 'delete'),
  'alter-configs': async () => {
    const configEntries = [{ name: 'retention.ms', value: '123456' }]
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: TOPIC, configEntries }] })
    await until(async () => (await configOf('retention.ms')) === '123456', 'the config is returned')
  },
  'delete-records': async () => {
    await admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: '10' }] })
    equal((await admin.fetchTopicOffsets(TOPIC)).find(each => each.partition === 0).low, '10')
    equal(await consume(TOPIC, RECORDS - 10, 10), valuesOf('seek').slice(10))
  },
  'create-partitions': async () => {
    await admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: PARTITIONS + 2 }] })
    await until(async () => (await partitionsOf(TOPIC)).length === PARTITIONS + 2, 'two partitions more')
  },
  'describe-cluster': async () => equal((await admin.describeCluster()).brokers.length >= replication, true),
  reassignments: async () => {
    const { topics } = await admin.listPartitionReassignments({ topics: [{ topic: TOPIC, partitions: [0] }] })
    equal(topics, [])
  },
  acls: async () => {
    const acl = {
      resourceType: AclResourceTypes.TOPIC, resourceName: TOPIC, resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: 'User:a', host: '*', operation: AclOperationTypes.READ, permissionType: AclPermissionTypes.ALLOW
    }
    equal(await refusalOf(() => admin.describeAcls(acl)), 'SECURITY_DISABLED')
    equal(await refusalOf(() => admin.createAcls({ acl: [acl] })), 'SECURITY_DISABLED')
    equal(await refusalOf(() => admin.deleteAcls({ filters: [acl] })), 'SECURITY_DISABLED')
  },
  'delete-topic': async () => {
    await admin.deleteTopics({ topics: [TOPIC] })
    await until(async () => !(await admin.listTopics()).includes(TOPIC), 'the topic is gone')
  }
})
