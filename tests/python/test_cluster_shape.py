"""The shape of the cluster that `--nproc` and `--nnodes` ask for. No torch."""

import argparse

import pytest
from locus.errors import UsageError
from locus.process import cluster


def arguments(**given):
    return argparse.Namespace(**{"nproc": None, "nnodes": None, **given})


def test_the_shape_of_a_cluster():
    assert cluster.parse(arguments()) is None
    assert cluster.parse(arguments(nproc="16")) == (16, 1)
    assert cluster.parse(arguments(nproc="16", nnodes="4")) == (16, 4)
    assert cluster.parse(arguments(nproc="1024", nnodes="128")) == (1024, 128)
    found = cluster.Shape(16, 4).environment(6, 1234)
    assert (found["RANK"], found["LOCAL_RANK"], found["GROUP_RANK"], found["LOCAL_WORLD_SIZE"]) == ("6", "2", "1", "4")


@pytest.mark.parametrize(
    "given, words",
    [
        ({"nnodes": "2"}, "--nnodes is about the ranks of --nproc"),
        ({"nproc": "8", "nnodes": "3"}, "can't be spread evenly"),
        ({"nproc": "8", "nnodes": "none"}, "--nnodes none is not a number of hosts"),
        ({"nproc": "1021"}, "makes 1021 devices on each"),
    ],
)
def test_clusters_that_can_not_be(given, words):
    with pytest.raises(UsageError, match=words):
        cluster.parse(arguments(**given))
