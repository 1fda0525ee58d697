// See races.h.
#include "locus/bridge/streams/races.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include "locus/bridge/door/findings.h"
#include "locus/bridge/door/policy.h"
#include "locus/bridge/door/real.h"
#include "locus/bridge/door/verdicts.h"
#include "locus/bridge/door/watch.h"
#include "locus/bridge/python/courier.h"
#include "locus/bridge/streams/card_calls.h"
#include "locus/bridge/streams/ordering.h"

namespace locus::bridge {
namespace {

namespace py = pybind11;
using order::Kind;

/// One of the two, for Python.
struct Side {
  order::Note note;
  Kind kind;
  LaneInfo lane;
  bool current = false;  ///< the current stream of its device, where the later access happens
};

py::dict side_dict(const Side& side) {
  py::dict d;
  d["site"] = side.note.site;
  d["overload"] = operator_name(side.note.op);
  d["argument"] = side.note.argument;
  d["writes"] = side.kind == Kind::kWrite;
  d["device"] = side.lane.device, d["stream"] = side.lane.stream;
  d["stream_site"] = side.lane.made, d["collective"] = side.lane.collectives, d["current"] = side.current;
  return d;
}

uint64_t key_of(const order::Conflict& conflict, const LaterAccess& later) {
  uint64_t key = engine::mix((uint64_t{conflict.first.site} << 32) ^ later.note.site);
  key = engine::mix(key ^ (uint64_t{conflict.first.op} << 32) ^ (uint64_t{later.note.op} << 8));
  return engine::mix(key ^ (conflict.first.freed ? 4U : 0U) ^ (later.kind == Kind::kWrite ? 2U : 0U) ^
                     (conflict.first_kind == Kind::kWrite ? 1U : 0U));
}

}  // namespace

void report_race(const order::Conflict& conflict, const LaterAccess& later) {
  // From here on it is as if the program had waited: one missing wait is one finding.
  if (later.lane == order::kHost) {
    stream_order().host_waits(conflict.first.lane);
  } else {
    stream_order().wait_for(later.lane, conflict.first.lane);
  }
  if (policy() == Policy::kRaise || policy() == Policy::kMove || t_reporting) return;
  const std::function<bool()> in_doubt = on_real_devices() ? &order_is_in_doubt : nullptr;
  const Decision as_it_is{false, c10::Device(c10::kCPU)};
  if (later.lane == order::kHost && later.kind == Kind::kRead && later.tensor != nullptr) {
    return report_early_read(operator_name(later.note.op), *later.tensor, later.note.argument,
                             lane_info(conflict.first.lane).device, in_doubt);
  }
  decide(key_of(conflict, later), as_it_is, [&](uint64_t key) {
    const auto side = [](const order::Note& note, Kind kind, order::Lane lane) {
      const LaneInfo info = lane_info(lane);
      return Side{note, kind, info, info.device >= 0 && info.stream == stream_here(info.device)};
    };
    const Side first = side(conflict.first.note(), conflict.first_kind, conflict.first.lane);
    const Side second = side(later.note, later.kind, later.lane);
    const bool in_backward = user_site() == 0 && in_autograd_node();
    return in_python(
        [first, second, key, in_backward, in_doubt, as_it_is, device = device_here(), address = later.address,
         freed = conflict.first.freed, tensor = later.tensor != nullptr ? *later.tensor : at::Tensor()] {
          if (in_doubt && in_doubt()) return as_it_is;
          py::dict raw;
          raw["kind"] = "race", raw["key"] = key, raw["freed"] = freed, raw["in_backward"] = in_backward;
          raw["first"] = side_dict(first), raw["second"] = side_dict(second);
          raw["current"] = device, raw["address"] = address;
          raw["tensor"] = tensor.defined() ? py::cast(tensor) : py::none();
          return report_raw(raw, c10::Device(c10::kCPU));
        },
        as_it_is);
  });
}

}  // namespace locus::bridge
