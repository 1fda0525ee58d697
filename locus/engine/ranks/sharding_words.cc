// See sharding_words.h.
#include "locus/engine/ranks/sharding_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "locus/engine/ranks/words.h"

namespace locus::engine::ranks {

Told mixed_tensors(const Facts& facts) {
  const bool one = facts.names.size() == 1, of_model = !facts.subject.empty();
  const std::string what =
      of_model ? (one ? " of " + facts.subject + " is" : " of " + facts.subject + " are") : (one ? " is" : " are");
  Told told{
      of_model ? fmt::format("{} got both DTensors and plain tensors",
                             facts.wrapper.empty() ? facts.op + "()" : facts.wrapper + ".step()")
               : facts.op + "() got a DTensor and a plain tensor",
      fmt::format("{}; {}",
                  facts.names.empty() ? "one of its tensors is plain"
                                      : listed(facts.names) + what + (one ? " a plain tensor" : " plain tensors"),
                  facts.devices.empty() ? "another is a DTensor" : fmt::format("{}", fmt::join(facts.devices, ", "))),
      {}};
  if (!of_model)
    told.notes = {
        "make the plain tensor a DTensor of the same mesh: distribute_tensor(t, mesh, [Replicate()]); or compute with "
        "the other's to_local() or full_tensor()"};
  else
    told.notes = {
        "shard the rest of the model as well: fully_shard() of the whole model, after its parts; or, with tensor "
        "parallelism, a plan that names the rest"};
  if (of_model && !facts.wrapper.empty())
    told.notes.push_back(
        "where they are to stay plain: give the optimizer the two kinds as two parameter groups, or make it with "
        "foreach=False");
  return told;
}

Told other_sharding(const Facts& facts) {
  const std::string are = facts.names.size() == 1 ? "is" : "are";
  const std::string message =
      fmt::format("load_state_dict() of {} got a state dict of another sharding", facts.subject);
  if (facts.wrapper == "the state dict")
    return {
        message,
        fmt::format("{} {} sharded in the state dict (DTensor), and plain in the model", listed(facts.names), are),
        {"shard the model in the same way before it is loaded; or take the state dict whole: get_model_state_dict() "
         "of torch.distributed.checkpoint.state_dict with StateDictOptions(full_state_dict=True)"}};
  const char* side = facts.wrapper.empty() ? ", or the other way round" : "";
  return {message,
          fmt::format("{} {} sharded in the model (DTensor), and plain in the state dict{}", listed(facts.names), are,
                      side),
          {"load it before the model is sharded; or use set_model_state_dict() of "
           "torch.distributed.checkpoint.state_dict with StateDictOptions(full_state_dict=True)"}};
}

Told mesh_size(const Facts& facts) {
  return {fmt::format("a mesh of {} ranks was made in a job of {}", facts.count, facts.expected),
          fmt::format("the sizes of the mesh's dimensions multiply to {}, and there are {} ranks (WORLD_SIZE)",
                      facts.count, facts.expected),
          {"make one dimension what is left of dist.get_world_size() when it is divided by the others"}};
}

Told parent_first(const Facts& facts) {
  return {fmt::format("fully_shard() of {} came after that of a module around it", facts.subject),
          fmt::format("{} {} sharded with the module around it, and can't be sharded a second time",
                      listed(facts.names), facts.names.size() == 1 ? "was" : "were"),
          {"shard the inner modules first, then those around them, and the whole model last"}};
}

Told left_out(const Facts& facts) {
  const Pronouns words(facts.names.size());
  const bool one = words.one, values = facts.seen == Seen::kOtherValues;
  const std::string plan = at(facts.cause.value_or(Location()));
  const std::string what = fmt::format("{} of {}", listed(facts.names), facts.subject);
  const std::string left =
      fmt::format("the plan at {} splits other parameters of {} and leaves {} alone", plan, facts.subject, words.it());
  if (values)
    return {fmt::format("{} {} other values on each rank", what, one ? "has" : "have"),
            fmt::format("{0}; {1} made on every rank by itself, and nothing makes {2} alike: what is computed from {2} "
                        "is taken to be the same on all ranks, and is not",
                        left, words.it_is(), words.it()),
            {fmt::format("give {0} a place in the plan; or make {0} alike: the same torch.manual_seed() on all ranks "
                         "before the model is made, or dist.broadcast() of {0} from one rank",
                         words.it())}};
  return {
      fmt::format("{} {} another gradient on each rank, and nothing adds them up", what, one ? "gets" : "get"),
      fmt::format("{}; on each rank {} gradient comes from that rank's own part of the work, and the ranks' values "
                  "drift apart with every step",
                  left, words.its()),
      {fmt::format("give {} a place in the plan, such as SequenceParallel() for a norm; or add {} gradients up over "
                   "the group before the step: dist.all_reduce(p.grad, group=mesh.get_group())",
                   words.it(), words.its())}};
}

}  // namespace locus::engine::ranks
