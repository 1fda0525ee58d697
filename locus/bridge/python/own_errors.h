// The errors of locus.errors, raised from C++.
#pragma once

#include <torch/csrc/Exceptions.h>

namespace locus::bridge {

/// The class of this name in locus.errors; `otherwise` where it can't be imported. A reference for good; needs the GIL.
inline PyObject* own_error(const char* name, PyObject* otherwise) {
  PyObject* module = PyImport_ImportModule("locus.errors");
  PyObject* found = module != nullptr ? PyObject_GetAttrString(module, name) : nullptr;
  if (found == nullptr) PyErr_Clear();
  return found != nullptr ? found : otherwise;
}

}  // namespace locus::bridge
