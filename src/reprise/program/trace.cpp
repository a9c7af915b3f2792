#include "reprise/program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "reprise/program/trace_recording.h"
#include "reprise/program/verify.h"
#include "reprise/tensor/op.h"

namespace reprise::program {
namespace {

using Reason = TraceError::Reason;

// The symbol values of the five traced runs. These sizes are not special in any way: they are
// neither 0 nor 1 nor round. No symbol is an affine function of another symbol over the five rows,
// so at most one symbol explains a size. The T of the last two rows (2 and 32771) lies below and
// above the thresholds at which a model is likely to branch.
constexpr std::array kHints = {SymbolValues{7, 3, 2, 19},
                               SymbolValues{1031, 5, 3, 23},
                               SymbolValues{131, 11, 13, 31},
                               SymbolValues{2, 7, 29, 37},
                               SymbolValues{32771, 2, 5, 41}};

// Merges recordings with different sizes into one program.
class Merger {
 public:
  Merger(const TraceSignature& signature, std::span<const TraceRecording> recordings)
      : signature_(signature), recordings_(recordings) {}

  TracedProgram merge() {
    for (const TraceInput& input : signature_.inputs)
      (void)program_.add_input(input.name, input.type);
    for (const Tensor& parameter : recordings_[0].parameters) {
      (void)program_.add_parameter(constant_type(parameter.type()));
    }
    std::vector<Tensor> states;
    for (const TraceState& state : signature_.states) {
      (void)program_.add_state(state.type);
      states.push_back(state.tensor);
    }
    size_t num_records = recordings_[0].records.size();
    for (const TraceRecording& other : recordings_)
      num_records = std::min(num_records, other.records.size());
    for (size_t i = 0; i < num_records; ++i) add_node(i);
    require_equal_ends(num_records);
    for (const TracedOperand& output : recordings_[0].outputs)
      program_.outputs.push_back(value_of(output));
    return {.program = std::move(program_),
            .slots = {.parameters = recordings_[0].parameters, .states = std::move(states)}};
  }

 private:
  [[noreturn]] void fail(Reason reason, size_t index, const std::string& message) const {
    std::string module_path;
    std::source_location where;
    if (index < recordings_[0].records.size()) {
      module_path = recordings_[0].records[index].module_path;
      where = recordings_[0].records[index].call.where;
    }
    throw TraceError(reason, index, std::move(module_path), message, where);
  }
  [[noreturn]] void fail_branch(size_t index, size_t other, std::string_view what) const {
    fail(Reason::branch,
         index,
         fmt::format("{} with {} than with {}: the function decides by a size",
                     what,
                     kHints[other].to_string(),
                     kHints[0].to_string()));
  }

  void require_equal_ends(size_t num_records) const {
    for (size_t run = 1; run < recordings_.size(); ++run) {
      if (recordings_[run].records.size() != recordings_[0].records.size()) {
        fail_branch(num_records, run, "the function has more or fewer ops");
      }
      if (recordings_[run].outputs != recordings_[0].outputs) {
        fail_branch(num_records, run, "the function returns other values");
      }
    }
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const std::vector<Tensor>& a = recordings_[0].parameters;
      const std::vector<Tensor>& b = recordings_[run].parameters;
      const bool same =
          std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
            return x.data() == y.data() && x.type() == y.type();
          });
      if (!same) fail_branch(num_records, run, "the function reads other parameters");
    }
  }

  void require_equal_structure(size_t index) const {
    const TracedCall& first = recordings_[0].records[index];
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const TracedCall& other = recordings_[run].records[index];
      if (other.call.code != first.call.code) {
        fail_branch(index,
                    run,
                    fmt::format("op {} is {} instead of {}",
                                index,
                                op_name(other.call.code),
                                op_name(first.call.code)));
      }
      if (other.inputs != first.inputs) {
        fail_branch(index, run, fmt::format("{} takes other arguments", op_name(first.call.code)));
      }
      const OpAttributes& a = first.call.attributes;
      const OpAttributes& b = other.call.attributes;
      // Compare bits, so that a NaN equals itself here. verify() refuses NaN later.
      const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
      if (a.function != b.function || bits(a.epsilon) != bits(b.epsilon) || a.dim != b.dim ||
          bits(a.scale) != bits(b.scale) || bits(a.k_scale) != bits(b.k_scale) ||
          bits(a.v_scale) != bits(b.v_scale) || a.sliding_window != b.sliding_window ||
          a.chunk_size != b.chunk_size || bits(a.soft_cap) != bits(b.soft_cap) ||
          a.groups != b.groups || a.top_groups != b.top_groups || bits(a.least) != bits(b.least) ||
          bits(a.limit) != bits(b.limit) || a.ranks != b.ranks || a.type.dtype != b.type.dtype ||
          a.custom != b.custom) {
        fail(Reason::baked_number,
             index,
             fmt::format("{}: a constant depends on a size: {} became {}",
                         op_name(first.call.code),
                         kHints[0].to_string(),
                         kHints[run].to_string()));
      }
    }
  }

  template <typename Size>
  [[nodiscard]] SymInt fit_size(size_t index, std::string_view what, const Size& size_in) const {
    std::array<SizeSample, kHints.size()> samples;
    for (size_t run = 0; run < samples.size(); ++run) {
      samples[run] = {size_in(recordings_[run].records[index]), kHints[run]};
    }
    if (const std::optional<SymInt> size = fit(samples)) return *size;
    std::string seen;
    for (const SizeSample& sample : samples) {
      seen += fmt::format("; {} with {}", sample.size, sample.values.to_string());
    }
    fail(Reason::baked_number,
         index,
         fmt::format("{}: {} is neither a constant nor affine in T, R or L{}",
                     op_name(recordings_[0].records[index].call.code),
                     what,
                     seen));
  }

  [[nodiscard]] ValueType fit_type(size_t index, size_t result) const {
    const TensorType& first = recordings_[0].records[index].types[result];
    ValueType type{.dtype = first.dtype, .shape = {}, .layout = first.layout};
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const TensorType& other = recordings_[run].records[index].types[result];
      if (other.dtype != first.dtype || other.shape.rank() != first.shape.rank()) {
        fail_branch(index, run, "another type");
      }
    }
    for (int dim = 0; dim < first.shape.rank(); ++dim) {
      type.shape.push_back(
          fit_size(index, fmt::format("size {} of the result", dim), [&](const TracedCall& record) {
            return record.types[result].shape[dim];
          }));
    }
    return type;
  }

  [[nodiscard]] ValueId value_of(const TracedOperand& operand) const {
    switch (operand.kind) {
      case TracedOperand::Kind::none:
        return kNoValue;
      case TracedOperand::Kind::input:
        return program_.inputs[operand.index].value;
      case TracedOperand::Kind::result:
        return results_.at(operand.index);
      case TracedOperand::Kind::parameter:
        return program_.parameters[operand.index];
      case TracedOperand::Kind::state:
        return program_.final_states[operand.index];  // the newest version at this point
    }
    return kNoValue;
  }

  void add_node(size_t index) {
    require_equal_structure(index);
    const TracedCall& record = recordings_[0].records[index];
    const OpAttributes& attributes = record.call.attributes;
    Node node{.op = record.call.code, .location = record.location};
    node.attributes = {
        .function = attributes.function,
        .epsilon = attributes.epsilon,
        .dim = attributes.dim,
        .begin =
            fit_size(index, "begin", [](const TracedCall& r) { return r.call.attributes.begin; }),
        .length =
            fit_size(index, "length", [](const TracedCall& r) { return r.call.attributes.length; }),
        .scale = attributes.scale,
        .k_scale = attributes.k_scale,
        .v_scale = attributes.v_scale,
        .sliding_window = attributes.sliding_window,
        .chunk_size = attributes.chunk_size,
        .soft_cap = attributes.soft_cap,
        .groups = attributes.groups,
        .top_groups = attributes.top_groups,
        .least = attributes.least,
        .limit = attributes.limit,
        .ranks = attributes.ranks,
        .custom = attributes.custom};
    const std::span<const Attribute> keys = attributes_of(node.op);
    if (std::find(keys.begin(), keys.end(), Attribute::dtype) != keys.end()) {
      node.attributes.dtype = attributes.type.dtype;
    }
    for (const TracedOperand& input : record.inputs) node.inputs.push_back(value_of(input));
    for (size_t i = 0; i < record.types.size(); ++i) {
      node.outputs.push_back(program_.add_value(fit_type(index, i)));
    }
    const OpSignature signature = signature_of(program_, node);
    if (signature.writes_states) {
      for (size_t operand : signature.states) {
        node.outputs.push_back(program_.add_next_version(node.inputs[operand]));
      }
    }
    if (signature.out_buffer) {
      node.outputs.push_back(program_.add_value(program_.type(node.inputs[*signature.out_buffer])));
    }
    results_.insert(results_.end(), node.outputs.begin(), node.outputs.end());
    program_.nodes.push_back(std::move(node));
  }

  const TraceSignature& signature_;
  std::span<const TraceRecording> recordings_;
  Program program_;
  std::vector<ValueId> results_;  // the values of all results, by result number
};

}  // namespace

namespace {

// " at llama.cpp:91". The folder is left out because it differs between build machines.
std::string line_text(const std::source_location& where) {
  if (where.line() == 0) return {};
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  return fmt::format(" at {}:{}", file, where.line());
}

}  // namespace

TraceError::TraceError(Reason reason,
                       std::optional<size_t> op_index,
                       std::string module_path,
                       const std::string& message,
                       std::source_location where)
    : Error(fmt::format("trace: {}{}{}{}",
                        op_index ? fmt::format("op {}: ", *op_index) : "",
                        message,
                        module_path.empty() ? "" : fmt::format(" (in or after {})", module_path),
                        line_text(where))),
      reason_(reason),
      op_index_(op_index),
      module_path_(std::move(module_path)),
      where_(where) {}

TracedProgram trace(const TraceSignature& signature, const TracedFunction& function) {
  std::vector<TraceRecording> recordings;
  for (const SymbolValues& hint : kHints) {
    TracingExecutor executor(signature, hint);
    const std::vector<Tensor> outputs = function(executor.inputs());
    recordings.push_back(std::move(executor).finish(outputs));
  }
  TracedProgram traced = Merger(signature, recordings).merge();
  check(traced.program);
  return traced;
}

}  // namespace reprise::program
