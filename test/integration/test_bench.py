"""Benchmarks: small ones run through, and every figure of the summary is there and makes sense.

How fast things are is not tested here: that depends on the machine and on who else uses it.
"""

import json

import pytest

SMALL = ["--rows", "2", "--width", "1000", "--keys", "10000", "--seconds", "0.01"]
FIGURES = ["limit_copy_gb_s", "limit_random_maccess_s", "limit_probe_mkeys_s", "dense_pull_gb_s",
           "dense_push_gb_s", "sparse_pull_mkeys_s", "sparse_push_mkeys_s", "set_pull_mkeys_s",
           "set_push_mkeys_s", "get_ns", "inc_ns", "clock_us", "pull_us_p50", "pull_us_p99",
           "dense_pull_of_limit", "dense_push_of_limit", "sparse_pull_of_limit",
           "sparse_push_of_limit"]


def test_default_is_one_worker_then_two(rubato):
    found = json.loads(rubato.ok("bench", "ps", *SMALL, "--summary", "json"))
    assert (found["workers"], found["workers_w2"]) == (1, 2)
    assert (found["servers"], found["servers_w2"]) == (1, 2)
    for suffix in ("", "_w2"):
        for name in FIGURES:
            assert found[name + suffix] > 0, name + suffix
        assert [row["row_bytes"] for row in found["dense" + suffix]] == [1024, 16384, 262144, 4000,
                                                                          16777216]


@pytest.mark.parametrize("workers, servers", [(1, 3), (3, 1), (4, 2)])
def test_any_number_of_workers_and_shards(rubato, workers, servers):
    found = json.loads(rubato.ok("bench", "ps", *SMALL, "--workers", workers, "--servers", servers,
                                 "--summary", "json"))
    assert (found["workers"], found["servers"]) == (workers, servers)
    assert all(found[name] > 0 for name in FIGURES)
    assert not any("_w" in name for name in found if name != "workers")


@pytest.mark.parametrize("transport", ["unix", "tcp", "tls"])
def test_servers_in_processes(rubato, transport):
    found = json.loads(rubato.ok("bench", "ps", *SMALL, "--keys", "200000", "--workers", "1",
                                 "--processes", "--transport", transport, "--summary", "json"))
    assert found["transport"] == transport
    assert all(found[name] > 0 for name in FIGURES)
    # Keys that the server has travel as a name: 4 bytes of value are left, and what messages need.
    assert 4 < found["set_pull_bytes_per_key"] < 4.5
    assert 4 < found["set_push_bytes_per_key"] < 4.5


def test_net(rubato):
    found = json.loads(rubato.ok("bench", "net", "--seconds", "0.05", "--summary", "json"))
    assert found["transport"] == "unix"
    assert [row["row_bytes"] for row in found["dense"]] == [4096, 65536, 1048576, 16777216]
    for row in found["dense"]:
        assert row["goodput_gb_s"] > 0 and row["limit_socket_gb_s"] > 0
    for name in ("pull_us_p50", "pull_us_p99", "pull_us_p50_one_core", "limit_trip_us"):
        assert found[name] > 0, name


@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_net_over(rubato, transport):
    found = json.loads(rubato.ok("bench", "net", "--seconds", "0.05", "--size", "65536",
                                 "--transport", transport, "--summary", "json"))
    assert found["transport"] == transport
    assert found["dense"][1]["goodput_gb_s"] > 0


COSTS = {"linear": ["nonzero", "example", "weight"], "mf": ["rating", "rating_rank", "element"]}


def test_costs_are_measured_and_compared_with_what_is_declared(rubato):
    """Tiny data gives poor figures, even negative ones; only that they fit together is tested."""
    found = json.loads(rubato.ok("bench", "cost", "--examples", "50k", "--summary", "json"))
    for algo, units in COSTS.items():
        assert found[f"{algo}_ratio"] > 0
        for name in (f"{algo}_ns_per_{unit}" for unit in units):
            assert found[f"{name}_declared"] > 0
            assert found[f"{name}_ratio"] == pytest.approx(found[f"{name}_declared"] / found[name])
    assert rubato.files() == []
    text = rubato.ok("bench", "cost", "--examples", "50k")
    assert "cores, load" in text.splitlines()[0]
    assert "mf_ns_per_rating_rank" in text


def test_the_table_names_machine_and_limits(rubato):
    text = rubato.ok("bench", "ps", *SMALL, "--workers", "1")
    assert "cores, load" in text.splitlines()[0]
    assert "% of the limit" in text
    assert "1 worker, 1 shard:" in text
