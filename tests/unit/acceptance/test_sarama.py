"""Which of sarama's tests are run, and where its proxies lead."""

from __future__ import annotations

from tests.acceptance.outcomes import Outcome
from tests.acceptance.suite import Suite
from tests.acceptance.suites.sarama import SUITE, functional_tests, proxies, select
from tests.integration.reserved_ports import _PORTS

FUNCTIONAL = """//go:build functional

package sarama

func TestMain(m *testing.M) {
func TestFuncProducing(t *testing.T) {
	t.Run("TestOfItsOwn", func(t *testing.T) {
func testProducing(t *testing.T, config *Config) {
func TestVersionMatrix(t *testing.T) {
"""
WITHOUT_BROKER = """//go:build !functional

package sarama

func TestProduceRequest(t *testing.T) {
"""
EITHER = """package sarama

func TestMetadataRequest(t *testing.T) {
"""


def test_tests_that_need_no_broker_are_left_out() -> None:
    sources = {"a_test.go": FUNCTIONAL, "b_test.go": WITHOUT_BROKER, "c_test.go": EITHER}
    assert functional_tests(sources) == ["TestFuncProducing", "TestVersionMatrix"]


def test_there_are_five_proxies_that_lead_to_the_brokers_in_turn() -> None:
    behind = {29092: 20002, 29091: 20001, 29093: 20003}
    assert [(each.name, each.port, each.upstream_port) for each in proxies(behind)] == [
        ("kafka1", 29091, 20001),
        ("kafka2", 29092, 20002),
        ("kafka3", 29093, 20003),
        ("kafka4", 29094, 20001),
        ("kafka5", 29095, 20002),
    ]


def test_the_proxy_of_a_broker_has_its_id_in_its_name() -> None:
    addresses = SUITE.addresses
    assert addresses is not None
    ports = {addresses.port_of(broker): 20000 + broker for broker in SUITE.ids(SUITE.kafka_brokers)}
    by_port = {each.port: each.name for each in proxies(ports)}
    assert [by_port[addresses.port_of(broker)] for broker in SUITE.ids(3)] == ["kafka1", "kafka2", "kafka3"]


def test_ids_are_those_of_kafka_unless_a_suite_has_others() -> None:
    usual = Suite("kgo", "franz-go", SUITE.bring, SUITE.run)
    assert list(usual.ids(3)) == [0, 1, 2]
    assert list(SUITE.ids(3)) == [1, 2, 3]


def test_a_test_has_one_row_whatever_its_subtests() -> None:
    outcomes = {"TestFuncJoin": Outcome.FAIL, "TestFuncJoin/v5": Outcome.FAIL, "TestFuncJoin/v0": Outcome.PASS}
    assert select(outcomes) == {"TestFuncJoin": Outcome.FAIL}


def test_no_test_is_given_a_port_of_the_proxies() -> None:
    fixed = {each.port for each in proxies({29091: 20001})}
    assert not fixed & {port for start in _PORTS for port in range(start, start + 200)}
