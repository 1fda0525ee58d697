# ruff: noqa: E501
"""The one place that knows PyTorch's and its libraries' sentences about devices: all of a real card's, and no others."""

import re
from pathlib import Path

import pytest
from locus.ground_truth import table
from locus.watch import messages

DATA = Path(__file__).resolve().parent.parent / "data"

ABOUT_DEVICES = [
    "torch.block_diag: input tensors must all be on the same device. Input 0 is on device cpu and input 1 is on device cuda:0",
    "Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)",
    "Tensors must be CUDA and dense",
    "No backend type associated with device type cpu",
    "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
    "Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 2.",
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
    "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu",
    "Unsupported device in DLTensor.",
    'Attempted to set the storage of a tensor on device "cuda:0" to a storage on different device "cpu".  This is no longer allowed; the devices must match.',
    "Expected a 'cuda' device type for generator but found 'cpu'",
    "Expected a 'cpu' generator device but found 'cuda'",
    "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
    "Input and parameter tensors are not at the same device, found input tensor at cpu and parameter tensor at cuda:0",
    "src must be CUDA tensor",
    "index must be CPU tensor",
    "x must be a CUDA tensor",
    "dets must be a CUDA tensor",
    "boxes should be a CUDA tensor",
    "Expected x.is_cuda() to be true, but got false.",
    "Input and kernel must be on the same device",
    "The tensors must be on the same device. Got: cuda:0 and cpu",
    "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'rois'; but device 0 does not equal 1 (while checking arguments for roi_align_forward_cuda)",
    'Cannot assign node feature "h" on device cpu to a graph on device cuda:0. Call DGLGraph.to() to copy the graph to the same device.',
    'Expect argument "x" to have device context cuda:0. But got cpu(0).',
    "Input tensors need to be on the same GPU, but found the following tensor and device combinations:",
    "FSDP only supports single device modules but got params on {cpu, cuda:0}",
    "Expects tensor to be on the compute device cuda:0, was on cpu",
    "Expects the parameter to already be moved to device cuda:0 but got cpu",
    "FlashAttention only supports CUDA tensors",
    "q must be on CUDA",
    "Input tensor must be on GPU",
    "Tensor must be on CPU device",
    "All buffers must be on the same device",
    "apply_ is only implemented on CPU tensors",
    "_share_fd_: only available on CPU",
    "input must be a CPU tensor; it is currently on device cuda:0",
    "found_inf must be a CPU tensor.",
    "add: expected 'other' to be a CPU tensor, but got a CUDA tensor",
    "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
    "out Tensor doesn't have the correct device set",
    "Tensor device index mismatch. Expected device index to be 0",
    "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
    "Expected object of device type cuda but got device type cpu for argument #1 'self' in call to _th_mm",
    "Unhandled FakeTensor Device Propagation for aten.mm.default, found two different devices cuda:0, cpu",
    "Received incompatible devices for jitted computation. Got argument x of add with shape float32[3] and with device ids [0] on platform CPU",
    "Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor Use tensor.cuda() or",
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
    "TensorPipe RPC backend only supports CPU tensors by default, please move your tensors to CPU before sending them over RPC",
    "Values and compressed tensor instance need to be on the same device.",
    "high must be a scalar tensor and on CPU",
    "Expected scalars to be on CPU, got cuda:0",
    "mkldnn pointwise binary fusion: input's device should be CPU",
    "device type of values (cuda) must match device type of device().type()cpu)",
    "backend of indices (CUDA) must match backend of values (CPU)",
    "dense_to_mkldnn expects CPU tensor input",
    "boundaries tensor should have same device type, but got boundaries tensor device type cpu and input value tensor device type cuda",
    "local shard tensor device does not match with local Shard's placement!",
    "Model is on cuda:0 but the input is on cpu",
    "Specified device cuda:1 does not match device of data cuda:0",
]
OTHERS = [
    "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
    "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
    "expected scalar type Float but found Double",
    "expected m1 and m2 to have the same dtype, but got: float != double",
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.00 GiB",
    "CUDA error: device-side assert triggered",
    "CUDA error: invalid device ordinal",
    "Could not run 'aten::narrow_copy.out' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend",
    "Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.",
    "index 5 is out of bounds for dimension 0 with size 3",
    "\"addmm_impl_cpu_\" not implemented for 'Half'",
    "\"slow_conv2d_cpu\" not implemented for 'Half'",
    "index out of range in self",
    "'device'",
    "No such file or directory: '/data/cuda/same'",
    "Torch not compiled with CUDA enabled",
    "No CUDA GPUs are available",
    "[Errno 28] No space left on device",
    "[Errno 19] No such device",
    "Invalid device string: 'gpu'",
    "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: gpu",
    "device must be a string or torch.device",
    "unexpected keyword argument 'device'",
    "element 0 of tensors does not require grad and does not have a grad_fn",
    "Trying to backward through the graph a second time",
    "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.cuda.FloatTensor [2]], which is output 0 of ReluBackward0, is at version 1; expected version 0 instead.",
    "Expected input batch_size (3) to match target batch_size (4).",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA graphs are not simulated by Locus",
    "module 'torch' has no attribute 'cuda_thing'",
    "Unknown device type",
    "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
    "nansum on CPU does not support complex inputs",
    "topk does not support bool dtypes on CPU",
    "Device index must not be negative",
    "NCCL error in: unhandled cuda error",
    "DataLoader worker (pid 12) is killed by signal: Killed.",
    "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1 in the list.",
    "Boolean value of Tensor with more than one value is ambiguous",
    "Error(s) in loading state_dict for Linear: size mismatch for weight: copying a param with shape torch.Size([2, 2])",
    "backend must be one of gloo, nccl",
    "`placements` must have the same length as `device_mesh.ndim`! Found placements length: 1, and device_mesh.ndim: 2.",
    "FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found input tensors on meta device.",
    "the number of devices must be a multiple of 2",
    "batch_size must be divisible by the number of devices",
    "num_samples should be a positive integer value, but got num_samples=0",
    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module from meta to a different device.",
    "result type Float can't be cast to the desired output type Long",
    "element type must be the same on all ranks",
    "CUDA requires a device with compute capability 7.0",
    "Legacy XPU profiling is not supported. Requires use_kineto=True on XPU devices.",
    "All stages must have the same device type for RNG forking.",
    "invalid literal for int() with base 10: 'cuda:0'",
    "the model file must be on disk",
    "Ninja is required to load C++ extensions (pip install ninja to get it) for a cuda device",
]

OF_OTHER_MATTERS = (
    r"output with shape \[.*\] doesn't match the broadcast shape",
    r"\w+\.__init__\(\) got an unexpected keyword argument 'foreach'",
    r"Attempted to use an uninitialized parameter",
    r"Overloaded torch operator invoked from Python failed to match any schema",
    r"the base given to float_power_ has dtype",
    r"nonzero\(\): argument 'out' must be Tensor",
    r"`fused=True` requires all the params to be .* but torch\.float32 and cuda$",  # no fused Adagrad for CUDA
    r"Could not run 'aten::(?:slow_conv3d_forward|narrow_copy.out)' with arguments from the 'CUDA' backend",  # no kernel
    r"CUDA error: an illegal memory access",  # the card followed a pointer of the host's
)
"""What a card refuses in the tables for other reasons than where tensors are, or without saying so."""


@pytest.mark.parametrize("words", ABOUT_DEVICES)
def test_it_knows(words):
    assert messages.read(words) is not None


@pytest.mark.parametrize("words", OTHERS)
def test_it_leaves_alone(words):
    assert messages.read(words) is None


@pytest.mark.parametrize("name", ["placement_h200_torch2.11.json.gz", "placement_more_h200_torch2.11.json.gz"])
def test_it_knows_every_refusal_of_a_card(name):
    """Some 18,300 in both tables; those that it does not know are of other matters, and each of these is known."""
    said = {row.said.detail for row in table.read(str(DATA / name)).rows.values() if row.said.outcome != "ok"}
    unknown = {words for words in said if messages.read(words) is None}
    assert len(said) > 100
    assert not [words for words in unknown if not any(re.match(other, words) for other in OF_OTHER_MATTERS)]


def test_the_words_alone_decide_only_of_pytorchs_own_errors():
    words = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"

    class Other(RuntimeError):
        def __str__(self):
            return words

    said = messages.recognize(RuntimeError(words))
    assert said is not None and said.parts == {"a": "cuda:0", "b": "cpu"}
    assert messages.recognize(Other(words)) is None and messages.recognize(KeyError(words)) is None
