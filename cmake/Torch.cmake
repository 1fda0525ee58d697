# Finds the PyTorch that is installed for the interpreter in use and sets LOCUS_TORCH_*. Does not use TorchConfig.cmake:
# on CUDA builds that asks for the CUDA toolkit, which the bridge does not need.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)

set(LOCUS_TORCH_DIR "" CACHE PATH "The torch package to build for, …/site-packages/torch (empty: look for it)")
set(find_torch ${CMAKE_SOURCE_DIR}/python/locus/_torch_info.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${find_torch})
if(LOCUS_TORCH_DIR)
  set(ENV{LOCUS_TORCH_DIR} ${LOCUS_TORCH_DIR})
endif()
execute_process(
  COMMAND ${Python_EXECUTABLE} -E ${find_torch}
  OUTPUT_VARIABLE torch_settings ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "${torch_error}")
endif()
cmake_language(EVAL CODE "${torch_settings}")
message(STATUS "PyTorch ${LOCUS_TORCH_VERSION} in ${LOCUS_TORCH_DIR} (C++11 ABI: ${LOCUS_TORCH_CXX11_ABI})")
if(NOT LOCUS_TORCH_INCLUDE_DIRS)
  message(FATAL_ERROR "PyTorch ${LOCUS_TORCH_VERSION} in ${LOCUS_TORCH_DIR} has no headers. With Debian's python3-torch: apt install libtorch-dev pybind11-dev")
endif()

# Every object that ends up in the bridge must agree on std::string, the rooms without torch too.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=${LOCUS_TORCH_CXX11_ABI})

# The C++ runtime that PyTorch uses. Some compilers link their own into what they build; with two in one process, streams
# that one has made are misread by the other, and numbers in messages end it.
execute_process(COMMAND ldd ${LOCUS_TORCH_LIB_DIR}/libc10.so OUTPUT_VARIABLE torch_needs ERROR_QUIET)
set(LOCUS_CXX_RUNTIME "")
if(torch_needs MATCHES "libstdc\\+\\+\\.so\\.6 => (/[^ \n]+)")
  set(LOCUS_CXX_RUNTIME ${CMAKE_MATCH_1})
endif()
