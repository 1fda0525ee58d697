"""What `locus check` does not get right yet: the programs it is tried on, by test, each with the reason. An entry that
no longer fails makes the test fail (strict), so that the list stays true."""

_AUTOGRAD = "autograd refuses a gradient of another device itself, before any operator is called"

KNOWN_MISSES = {
    "test_every_mistake_is_found": {
        "gradient_penalty": _AUTOGRAD,
        "host_gradients": "assigning .grad is no operator; PyTorch's own error ends the program",
        "vector_backward": _AUTOGRAD,
    },
    "test_nothing_else_is_found": {},
    "test_goes_on_to_the_end": {
        "cuda_in_worker": "without the batch there is no going on",
        "gradient_penalty": _AUTOGRAD,
        "host_gradients": "see above",
        "vector_backward": _AUTOGRAD,
    },
}
