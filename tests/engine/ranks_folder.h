// A folder in which the ranks of a test meet; it goes with the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "locus/engine/ranks/flight.h"

namespace locus::engine::ranks {

class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "ranks-XXXXXX").string();
    path_ = ::mkdtemp(path.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Call collective(Number number, std::string group = "0", std::string name = "all_reduce") {
  Call call;
  call.group = std::move(group), call.number = number, call.name = std::move(name);
  call.shape = {2, 3}, call.elements = 6, call.dtype = "Float", call.reduction = "SUM";
  call.place = {"/p/train.py", 12, 4, 12, 30, "step", ""};
  return call;
}

}  // namespace locus::engine::ranks
