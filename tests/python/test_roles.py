"""Which ranks stand for all (`--ranks auto`), what a text says of ranks, the shape of a cluster. No torch."""

import argparse
import json

import pytest
from locus.errors import UsageError
from locus.process import cluster, roles
from locus.program import rank_text
from locus.ranks.record import label_of


def mesh(names, shape):
    size = 1
    for each in shape:
        size *= each
    return {"names": names, "shape": shape, "ranks": list(range(size))}


BIG = mesh(["dp", "shard", "tp"], [16, 8, 8])


def hear(taken, *meshes, groups=()):
    taken.hear({"rank": 0, "meshes": list(meshes), "groups": list(groups), "files": []})


def test_first_and_last_of_each_dimension():
    taken = roles.Roles(1024, 8)
    hear(taken, BIG)
    assert sorted(taken.why) == [0, 7, 56, 960, 1023]
    assert taken.why[7] == "last of tp" and taken.why[960] == "last of dp"
    assert roles.coordinates(967, [BIG]) == "dp 15, shard 0, tp 7"
    world, apart = mesh(["world"], [1024]), mesh(["pp", "dp", "cp", "tp"], [1, 128, 1, 8])
    assert roles.coordinates(967, [world, apart]) == "dp 120, tp 7"
    assert roles.coordinates(0, [mesh(["pp", "tp"], [1, 1])]) == "pp 0, tp 0"
    assert roles.coordinates(967, []) == ""


def test_all_stages_of_a_pipeline():
    taken = roles.Roles(16, 8)
    hear(taken, mesh(["pp", "tp"], [4, 4]))
    assert sorted(taken.why) == [0, 3, 4, 8, 12, 15]


def test_ranks_that_the_text_names():
    taken = roles.Roles(1024, 8)
    taken.read("a.py", "a.py", "if rank == 3 or local_rank == 5:\n  pass\nif dist.get_rank() == world_size - 1: pass\n")
    taken.read("b.py", "b.py", "if tp_rank == 2: pass\nif rank == args.first: pass\nopen(f'{rank}.pt')\n")
    hear(taken, BIG)
    assert {3, 5, 1023, 2} <= set(taken.why)
    assert taken.why[3] == "named at a.py:1" and taken.why[2] == "named at b.py:1"
    assert taken.unknown == [
        "a rank is compared with what is no constant at b.py:2",
        "a file is opened by its rank at b.py:3",
    ]


def test_groups_and_messages():
    taken = roles.Roles(8, 8)
    hear(taken, groups=[[0, 2, 5], list(range(8))])
    calls = {"groups": [{"members": [0, 6]}], "kinds": [{"name": "send", "group": 0, "root": 1}]}
    taken.hear_calls(0, json.dumps(calls).encode())
    taken.hear_calls(0, b"{")
    assert taken.why == {5: "last of a group of 3", 6: "exchanges messages with rank 0"}


def test_one_pipeline_stands_for_the_others():
    taken = roles.Roles(16, 8)
    hear(taken, mesh(["pp", "tp"], [4, 4]))
    assert taken.stand_in(7, 3) == 4  # the second stage, at another place of tp
    assert taken.stand_in(7, 2) is None and taken.stand_in(4, 0) is None and taken.stand_in(99, 0) is None
    calls = {"groups": [{"members": [3, 7, 11, 15]}], "kinds": [{"name": "recv", "group": 0, "root": 1}]}
    taken.hear_calls(3, json.dumps(calls).encode())
    assert 7 not in taken.why


def test_no_more_than_a_few():
    taken = roles.Roles(4096, 8)
    for rank in range(100):
        taken.add(rank, "")
    assert len(taken.why) == roles.MOST and len(taken.left_out) == 100 - roles.MOST
    unknown = taken.as_cluster(512, "{}")["unknown"]
    assert unknown == [f"36 more ranks have a role of their own; {roles.MOST} at most are run"]


@pytest.mark.parametrize(
    "text, found",
    [
        ("rank == 0", [("", 0)]),
        ("0 != self.global_rank", [("", 0)]),
        ("rank < 4", [("", 3), ("", 4)]),
        ("rank in (1, 6)", [("", 1), ("", 6)]),
        ("rank % 8 == 5", [("", 5)]),
        ("int(os.environ['LOCAL_RANK']) == 2", [("local", 2)]),
        ("mesh.get_local_rank('pp') == 1", [("pp", 1)]),
        ("rank is None", []),
        ("rank == other_rank", []),
        ("name == 'rank'", []),
    ],
)
def test_what_a_text_compares(text, found):
    read = rank_text.read(f"x = {text}\n")
    assert [(each.of, each.rank) for each in read.compared] == found and not read.unknown


def test_a_group_is_called_by_its_dimension():
    assert label_of([0, 8, 16, 24, 32, 40, 48, 56], [BIG]) == "shard"
    assert label_of([1, 2], [BIG]) == "" and label_of(list(range(1024)), [BIG]) == "world"


def arguments(**given):
    return argparse.Namespace(**{**dict.fromkeys(cluster.OPTIONS), **given})


def test_the_shape_of_a_cluster():
    assert cluster.parse(arguments()) is None
    assert cluster.parse(arguments(nproc="16")) == cluster.Shape(16, 1)
    assert cluster.parse(arguments(nproc="16", nnodes="4")) == cluster.Shape(16, 4)
    assert cluster.parse(arguments(nproc="1024")) == cluster.Shape(1024, 128)
    found = cluster.Shape(16, 4).environment(6, 1234)
    assert (found["RANK"], found["LOCAL_RANK"], found["GROUP_RANK"], found["LOCAL_WORLD_SIZE"]) == ("6", "2", "1", "4")
    chosen = cluster.parse_ranks("512, 0,1", cluster.Shape(1024, 128), True)
    assert chosen == ([0, 1, 512], False)


def test_a_machine_that_is_one_of_the_hosts(monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "1234")
    monkeypatch.setenv("MASTER_ADDR", "of-another-job")
    assert cluster.Shape(16, 4).environment(6, 1234)["MASTER_ADDR"] == "127.0.0.1"
    shape = cluster.parse(arguments(nproc="16", nnodes="4", node_rank="1", master_addr="node-a"))
    assert shape == cluster.Shape(16, 4, 1) and list(shape.here) == [4, 5, 6, 7]
    found = shape.environment(6, 1234)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["LOCAL_RANK"]) == ("node-a", "1234", "2")
    assert "LOCUS_ONE_MACHINE" not in found and "LOCUS_ONE_MACHINE" in cluster.Shape(16, 4).environment(6, 1234)
    assert cluster.is_elsewhere(shape) and not cluster.is_elsewhere(cluster.Shape(16, 4))


def test_what_launchers_say_of_a_host(monkeypatch):
    for name in ("LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE"):
        monkeypatch.delenv(name, raising=False)
    assert cluster.ranks_here(None) == 0 and cluster.ranks_here(cluster.Shape(16, 4)) == 4
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "4(x2),3")
    assert cluster.ranks_here(None) == 4
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert cluster.ranks_here(None) == 8


@pytest.mark.parametrize(
    "given, words",
    [
        ({"nnodes": "2"}, "--nnodes is about the ranks of --nproc"),
        ({"ranks": "auto"}, "--ranks is about the ranks of --nproc"),
        ({"nproc": "8", "nnodes": "3"}, "can't be spread evenly"),
        ({"nproc": "8", "nnodes": "none"}, "--nnodes none is not a number of hosts"),
        ({"nproc": "1021"}, "makes 1021 devices on each"),
    ],
)
def test_clusters_that_can_not_be(given, words):
    with pytest.raises(UsageError, match=words):
        cluster.parse(arguments(**given))


@pytest.mark.parametrize("text, dry, words", [("0", False, "--ranks needs --dry"), ("0,8", True, "from 0 to 7")])
def test_ranks_that_can_not_be(text, dry, words):
    with pytest.raises(UsageError, match=words):
        cluster.parse_ranks(text, cluster.Shape(8, 1), dry)
