# The bridge: one Python extension, built against the PyTorch installed for the interpreter in use. Does not use
# TorchConfig.cmake: on CUDA builds that asks for the CUDA toolkit, which the bridge does not need.

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

function(locus_add_bridge)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/locus/bridge/*.cc)
  if(NOT sources)
    message(WARNING "locus/bridge has no sources: no bridge is built")
    return()
  endif()

  add_library(locus_bridge MODULE ${sources})
  cmake_path(GET LOCUS_TORCH_BRIDGE_NAME STEM LAST_ONLY output_name)
  set_target_properties(locus_bridge PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME ${output_name}
    BUILD_RPATH ${LOCUS_TORCH_LIB_DIR}
    INSTALL_RPATH "$ORIGIN/../../torch/lib;${LOCUS_TORCH_LIB_DIR}")
  target_compile_definitions(locus_bridge PRIVATE TORCH_API_INCLUDE_EXTENSION_H TORCH_EXTENSION_NAME=_bridge)
  target_include_directories(locus_bridge SYSTEM PRIVATE ${LOCUS_TORCH_INCLUDE_DIRS})
  target_link_options(locus_bridge PRIVATE -Wl,--gc-sections)
  target_link_libraries(locus_bridge PRIVATE Python::Module)
  foreach(room engine report sim)
    if(TARGET locus_${room})
      target_link_libraries(locus_bridge PRIVATE locus_${room})
    endif()
  endforeach()
  # libtorch_cuda is left out on purpose: one bridge serves CPU builds and CUDA builds alike.
  foreach(library torch_python torch_cpu torch c10)
    target_link_libraries(locus_bridge PRIVATE ${LOCUS_TORCH_LIB_DIR}/lib${library}.so)
  endforeach()

  # The rule table is made from the operator list of this very PyTorch.
  set(make_rules ${CMAKE_SOURCE_DIR}/tools/make_rules.py)
  if(EXISTS ${make_rules})
    if(NOT LOCUS_TORCH_NATIVE_FUNCTIONS)
      message(FATAL_ERROR "PyTorch ${LOCUS_TORCH_VERSION} in ${LOCUS_TORCH_DIR} comes without torchgen's native_functions.yaml")
    endif()
    set(rules ${CMAKE_BINARY_DIR}/generated/locus/bridge/rules.inc)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/locus/bridge)
    add_custom_command(
      OUTPUT ${rules}
      COMMAND ${Python_EXECUTABLE} ${make_rules} ${LOCUS_TORCH_NATIVE_FUNCTIONS} ${rules}
      DEPENDS ${make_rules} ${LOCUS_TORCH_NATIVE_FUNCTIONS}
      COMMENT "Making the rule table" VERBATIM)
    target_sources(locus_bridge PRIVATE ${rules})
  endif()

  install(TARGETS locus_bridge LIBRARY DESTINATION locus/_native)
endfunction()
