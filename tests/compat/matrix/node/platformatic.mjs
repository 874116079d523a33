// @platformatic/kafka. Its codec for zstd is Node's own, from 22.15 on.
import { createRequire } from 'node:module'
import zlib from 'node:zlib'
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import {
  PARTITIONS, RECORDS, SECONDS, bootstrap, equal, includesAll, name, replication, run, sleep, until, valuesOf
} from './checks.mjs'

const require = createRequire(import.meta.url)
const { version } = require('./node_modules/@platformatic/kafka/package.json')
const TOPIC_RESOURCE = 2
const BROKER_RESOURCE = 4
const SET = 0

const common = { clientId: 'matrix', bootstrapBrokers: [bootstrap] }
const admin = new Admin(common)
const [TOPIC, SHARED, GROUP] = [name('topic'), name('shared'), name('group')]

const create = topic => admin.createTopics({ topics: [topic], partitions: PARTITIONS, replicas: replication })

async function produce(topic, values, { partitions = 1, ...settings } = {}) {
  const producer = new Producer({ ...common, serializers: stringSerializers, ...settings })
  const messages = values.map((value, number) => ({ topic, value, partition: number % partitions }))
  try {
    await producer.send({ messages, acks: -1 })
  } finally {
    await producer.close()
  }
}

class Member {
  seen = []

  constructor(groupId, settings = {}) {
    this.consumer = new Consumer({
      ...common, groupId, deserializers: stringDeserializers, sessionTimeout: 10000, heartbeatInterval: 500, maxWaitTime: 200,
      ...settings
    })
  }

  async read(options) {
    this.stream = await this.consumer.consume(options)
    this.stream.on('data', message => this.seen.push(message))
    this.stream.on('error', error => console.log('stream:', error))
    return this
  }

  partitions(topic) {
    return (this.consumer.assignments ?? []).filter(each => each.topic === topic).flatMap(each => each.partitions).length
  }

  values() {
    return this.seen.map(message => message.value)
  }

  leave() {
    return this.consumer.close(true)
  }
}

const joined = (groupId, topic) =>
  new Member(groupId).read({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: true })

/** Partition 0 from an offset: its consumers are always of a group. */
async function consume(topic, count, offset = 0) {
  const numbers = Array.from({ length: topic === TOPIC ? await partitionCount(topic) : PARTITIONS }, (_, number) => number)
  const offsets = numbers.map(partition => ({ topic, partition, offset: partition === 0 ? BigInt(offset) : 0n }))
  const reader = await new Member(name(`seek-${topic}-${offset}`)).read({
    topics: [topic], mode: 'manual', offsets, autocommit: false
  })
  const found = () => reader.seen.filter(message => message.partition === 0).map(message => message.value)
  const deadline = Date.now() + SECONDS * 1000
  while (found().length < count && Date.now() < deadline) await sleep(50)
  await reader.leave()
  return found()
}

const metadataOf = async topic => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic)
const partitionCount = async topic => (await metadataOf(topic)).partitionsCount

async function roundTrip(of, settings) {
  await create(name(of))
  await produce(name(of), valuesOf(of), settings)
  equal(await consume(name(of), RECORDS), valuesOf(of))
}

async function readSome(count) {
  const reader = new Member(GROUP)
  const options = { topics: [TOPIC], mode: 'committed', fallbackMode: 'earliest', autocommit: false }
  const stream = await reader.consumer.consume(options)
  const found = []
  for await (const message of stream) {
    found.push(message.value)
    await message.commit()
    if (found.length === count) break
  }
  await reader.leave()
  return found
}

async function offsetsOf(groupId) {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  const topic = group.topics.find(each => each.name === TOPIC)
  return Object.fromEntries((topic?.partitions ?? []).map(each => [each.partitionIndex, Number(each.committedOffset)]))
}

async function configOf(key) {
  const [{ configs }] = await admin.describeConfigs({ resources: [{ resourceType: TOPIC_RESOURCE, resourceName: TOPIC }] })
  return configs.find(each => each.name === key).value
}

async function offsetAt(timestamp) {
  const [topic] = await admin.listOffsets({ topics: [{ name: TOPIC, partitions: [{ partitionIndex: 0, timestamp }] }] })
  return Number(topic.partitions[0].offset)
}

function codesOf(error) {
  return [error.apiId, error.response?.errorCode, ...(error.errors ?? []).flatMap(codesOf)].filter(Boolean)
}

async function refusalOf(call) {
  try {
    await call()
  } catch (error) {
    return codesOf(error).join(' ') || error.message
  }
  return 'none'
}

await run(version, {
  'create-topic': async () => {
    await create(TOPIC)
    await create(SHARED)
  },
  'list-topics': async () => equal(includesAll(await admin.listTopics(), [TOPIC, SHARED]), true),
  'describe-topics': async () => {
    equal((await metadataOf(TOPIC)).partitions.map(each => each.replicas.length), Array(PARTITIONS).fill(replication))
  },
  produce: () => roundTrip('produce'),
  'produce-idempotent': () => roundTrip('idempotent', { idempotent: true }),
  'produce-gzip': () => roundTrip('gzip', { compression: 'gzip' }),
  'produce-snappy': () => roundTrip('snappy', { compression: 'snappy' }),
  'produce-lz4': () => roundTrip('lz4', { compression: 'lz4' }),
  ...(zlib.zstdCompressSync ? { 'produce-zstd': () => roundTrip('zstd', { compression: 'zstd' }) } : {}),
  'consume-seek': async () => {
    await produce(TOPIC, valuesOf('seek'))
    equal(await consume(TOPIC, RECORDS / 2, RECORDS / 2), valuesOf('seek').slice(RECORDS / 2))
  },
  'list-offsets': async () => equal([await offsetAt(-2n), await offsetAt(-1n)], [0, RECORDS]),
  'group-share': async () => {
    const values = valuesOf('shared', 3 * RECORDS)
    await produce(SHARED, values.slice(0, RECORDS), { partitions: PARTITIONS })
    const first = await joined(name('share'), SHARED)
    try {
      await until(() => first.partitions(SHARED) === PARTITIONS, 'the first member has all')
      await until(() => includesAll(first.values(), values.slice(0, RECORDS)), 'the first member reads all')
      const second = await joined(name('share'), SHARED)
      const both = () => [...first.values(), ...second.values()]
      try {
        await until(() => [first, second].every(each => each.partitions(SHARED) === PARTITIONS / 2), 'both have half')
        await produce(SHARED, values.slice(RECORDS, 2 * RECORDS), { partitions: PARTITIONS })
        await until(() => includesAll(both(), values.slice(0, 2 * RECORDS)), 'both together read all')
        equal(second.seen.length > 0, true)
      } finally {
        await second.leave()
      }
      await produce(SHARED, values.slice(2 * RECORDS), { partitions: PARTITIONS })
      await until(() => includesAll(both(), values), 'who is left reads all')
    } finally {
      await first.leave()
    }
  },
  'group-resume': async () => {
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(0, RECORDS / 2))
    equal(await readSome(RECORDS / 2), valuesOf('seek').slice(RECORDS / 2))
  },
  'list-groups': async () => equal((await admin.listGroups()).has(GROUP), true),
  'describe-groups': async () => {
    const member = await joined(name('described'), SHARED)
    try {
      await until(() => member.partitions(SHARED) === PARTITIONS, 'the member has all')
      const group = (await admin.describeGroups({ groups: [name('described')] })).get(name('described'))
      equal([group.state.toUpperCase(), group.members.size], ['STABLE', 1])
    } finally {
      await member.leave()
    }
  },
  'remove-members': async () => {
    const member = await joined(name('removed'), SHARED)
    try {
      await until(() => member.partitions(SHARED) === PARTITIONS, 'the member has all')
      const { memberId } = member.consumer
      await admin.removeMembersFromConsumerGroup({ groupId: name('removed'), members: [{ memberId }] })
      const group = (await admin.describeGroups({ groups: [name('removed')] })).get(name('removed'))
      equal(group.members.has(memberId), false)
    } finally {
      // Who was removed may have closed its streams itself.
      await member.leave().catch(error => console.log('leaving:', error.message))
    }
  },
  'list-group-offsets': async () => equal((await offsetsOf(GROUP))[0], RECORDS),
  'alter-group-offsets': async () => {
    const topics = [{ name: TOPIC, partitionOffsets: [{ partition: 0, offset: 7n }] }]
    await admin.alterConsumerGroupOffsets({ groupId: GROUP, topics })
    equal((await offsetsOf(GROUP))[0], 7)
  },
  'delete-group-offsets': async () => {
    await admin.deleteConsumerGroupOffsets({ groupId: GROUP, topics: [{ name: TOPIC, partitionIndexes: [0] }] })
    equal((await offsetsOf(GROUP))[0] ?? 'none', 'none')
  },
  'delete-groups': async () => {
    await admin.deleteGroups({ groups: [GROUP] })
    equal((await admin.listGroups()).has(GROUP), false)
  },
  'describe-configs': async () => {
    equal(await configOf('cleanup.policy'), 'delete')
    const [node] = (await admin.metadata({})).brokers.keys()
    const [broker] = await admin.describeConfigs({
      resources: [{ resourceType: BROKER_RESOURCE, resourceName: String(node) }]
    })
    equal(broker.configs.length > 0, true)
  },
  'alter-configs': async () => {
    const configs = [{ name: 'retention.ms', value: '123456', configOperation: SET }]
    await admin.incrementalAlterConfigs({ resources: [{ resourceType: TOPIC_RESOURCE, resourceName: TOPIC, configs }] })
    await until(async () => (await configOf('retention.ms')) === '123456', 'the config is returned')
  },
  'delete-records': async () => {
    const [topic] = await admin.deleteRecords({ topics: [{ name: TOPIC, partitions: [{ partition: 0, offset: 10n }] }] })
    equal(topic.partitions[0].lowWatermark, 10n)
    equal(await consume(TOPIC, RECORDS - 10, 10), valuesOf('seek').slice(10))
  },
  'create-partitions': async () => {
    await admin.createPartitions({ topics: [{ name: TOPIC, count: PARTITIONS + 2, assignments: null }] })
    await until(async () => (await partitionCount(TOPIC)) === PARTITIONS + 2, 'two partitions more')
  },
  'describe-cluster': async () => equal((await admin.metadata({ forceUpdate: true })).brokers.size >= replication, true),
  'describe-log-dirs': async () => {
    const brokers = await admin.describeLogDirs({ topics: [{ name: TOPIC, partitions: [0] }] })
    equal(brokers.some(each => each.results.some(result => result.topics.length > 0)), true)
  },
  acls: async () => {
    const acl = {
      resourceType: 2, resourceName: TOPIC, resourcePatternType: 3, principal: 'User:a', host: '*', operation: 3,
      permissionType: 3
    }
    for (const call of [
      () => admin.describeAcls({ filter: acl }),
      () => admin.createAcls({ creations: [acl] }),
      () => admin.deleteAcls({ filters: [acl] })
    ]) {
      equal((await refusalOf(call)).includes('SECURITY_DISABLED'), true)
    }
  },
  quotas: async () => {
    equal(await admin.describeClientQuotas({ components: [{ entityType: 'user', matchType: 2 }], strict: false }), [])
  },
  'delete-topic': async () => {
    await admin.deleteTopics({ topics: [TOPIC] })
    await until(async () => !(await admin.listTopics()).includes(TOPIC), 'the topic is gone')
  }
})
