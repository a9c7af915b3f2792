#include "reprise/runner/quarantine_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

using cudagraph::BatchDescriptor;
using cudagraph::CudagraphRuntimeMode;
using kv_cache::BlockId;

constexpr int kFormat = 1;
// Limits the size of a report, so that it does not fill a disk.
constexpr size_t kMostStateBytes = size_t{1} << 30;
constexpr size_t kMostReportBytes = size_t{256} << 20;

template <typename Id>
std::vector<int32_t> numbers(std::span<const Id> ids) {
  std::vector<int32_t> result;
  for (const Id id : ids) result.push_back(static_cast<int32_t>(id));
  return result;
}

/// The first `count` elements of a staged array.
std::vector<int32_t> read_ints(const Tensor& tensor, size_t count, device::Stream& stream) {
  std::vector<int32_t> values(count);
  stream.copy_to_host(values.data(), tensor.data(), count * sizeof(int32_t));
  return values;
}

Json json_of(const StepDifference& difference) {
  return {{"output", name(difference.output)},
          {"tensor", difference.tensor},
          {"row", difference.row},
          {"element", difference.element},
          {"replayed", difference.replayed},
          {"eager", difference.eager}};
}

Json json_of(const BatchDescriptor& descriptor) {
  return {{"num_tokens", descriptor.num_tokens},
          {"num_reqs", descriptor.num_reqs ? Json(*descriptor.num_reqs) : Json()},
          {"uniform", descriptor.uniform},
          {"has_lora", descriptor.has_lora},
          {"num_active_loras", descriptor.num_active_loras}};
}

/// Tokens and positions are read from the device: the host may not know the tokens of a step that
/// was scheduled before the previous step had ended.
Json json_of(std::span<const scheduler::StepEntry> requests,
             const InputBatch& batch,
             device::Stream& stream) {
  const auto num_tokens = static_cast<size_t>(batch.shape().num_tokens);
  const std::vector<int32_t> token_ids = read_ints(batch.input_ids(), num_tokens, stream);
  const std::vector<int32_t> positions = read_ints(batch.positions(), num_tokens, stream);
  Json all = Json::array();
  auto token = token_ids.begin();
  auto position = positions.begin();
  for (const scheduler::StepEntry& request : requests) {
    const std::vector<int32_t> mine(token, token + request.num_tokens());
    all.push_back({{"token_ids", mine},
                   {"positions", std::vector<int32_t>(position, position + request.num_tokens())},
                   {"num_computed_tokens", request.num_computed_tokens},
                   {"block_ids", numbers(request.block_ids)},
                   {"state_slot", static_cast<int32_t>(request.state_slot)},
                   {"encoder_len", request.encoder_len},
                   {"encoder_block_ids", numbers(request.encoder_block_ids)},
                   {"second_text_begin", request.second_text_begin},
                   {"has_adapter", request.adapter != nullptr},
                   {"samples", request.samples},
                   {"num_drafts", request.num_drafts},
                   {"num_padding_tokens", request.num_padding_tokens},
                   {"first_prompt_logit", request.first_prompt_logit},
                   {"num_prompt_logits", request.num_prompt_logits}});
    token += request.query_len();
    position += request.query_len();
  }
  return all;
}

/// The blocks of the requests in a report, each once.
std::vector<int32_t> blocks_of(const Json& requests) {
  std::set<int32_t> blocks;
  for (const Json& request : requests) {
    for (const char* member : {"block_ids", "encoder_block_ids"}) {
      for (const int32_t block : request.at(member).get<std::vector<int32_t>>()) {
        blocks.insert(block);
      }
    }
  }
  return {blocks.begin(), blocks.end()};
}

/// The memory in a report's state file, in order: all layers of each block, then all layers of each
/// state, then the inputs that no request describes. `blocks`, `slots`: their numbers in the
/// caches.
std::vector<device::BufferView> parts_of_state(const StepMemory& memory,
                                               std::span<const int32_t> blocks,
                                               std::span<const int32_t> slots) {
  std::vector<device::BufferView> parts;
  const auto add_rows = [&](std::span<const Tensor> tensors, std::span<const int32_t> rows) {
    for (const int32_t row : rows) {
      for (const Tensor& tensor : tensors) {
        const size_t bytes = tensor.extent().bytes / static_cast<size_t>(tensor.size(0));
        parts.push_back(
            {static_cast<std::byte*>(tensor.data()) + static_cast<size_t>(row) * bytes, bytes});
      }
    }
  };
  add_rows(memory.kv_cache().tensors(), blocks);
  if (!memory.states().tensors().empty()) add_rows(memory.states().tensors(), slots);
  for (const device::BufferView& input : memory.further_inputs()) parts.push_back(input);
  return parts;
}

size_t bytes_of(std::span<const device::BufferView> parts) {
  size_t bytes = 0;
  for (const device::BufferView& part : parts) bytes += part.bytes;
  return bytes;
}

std::vector<int32_t> state_slots_of(const Json& requests) {
  std::vector<int32_t> slots;
  for (const Json& request : requests) slots.push_back(request.at("state_slot").get<int32_t>());
  return slots;
}

/// The slot for the states of a saved request: the first slot of one of this engine's requests.
kv_cache::StateSlot new_state_slot(const StepMemory& memory, size_t request) {
  const auto slots_per_req = static_cast<int32_t>(memory.states().layout().slots_per_req);
  return kv_cache::StateSlot{static_cast<int32_t>(request) * slots_per_req + 1};
}

Json layout_json(const StepMemory& memory) {
  const kv_cache::KvCacheLayout& cache = memory.kv_cache().layout();
  Json layout = {{"num_layers", cache.num_layers},
                 {"num_kv_heads", cache.num_kv_heads},
                 {"block_size", cache.block_size},
                 {"head_dim", cache.head_dim},
                 {"dtype", dtype_name(cache.dtype)},
                 {"has_values", cache.has_values},
                 {"has_row_scales", cache.has_row_scales},
                 {"bytes_per_state", memory.states().layout().bytes_per_slot()}};
  // Written only if layers differ, so that reports of other models stay readable.
  for (const kv_cache::CacheHeads& heads : cache.layer_heads) {
    layout["layer_heads"].push_back({heads.count, heads.head_dim});
  }
  return layout;
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw Error(fmt::format("{} could not be written", path.string()));
  // Only the owner may read a report, because it contains the tokens of requests.
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

std::string read_file(const std::filesystem::path& path, size_t most_bytes) {
  std::ifstream file(path, std::ios::binary);
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (!file || failed) throw FileError("E_REPORT", path.string(), "", "cannot be read");
  if (size > most_bytes) throw FileError("E_REPORT", path.string(), "", "is too long for a report");
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) throw FileError("E_REPORT", path.string(), "", "cannot be read");
  return text;
}

std::string save_state(const StepMemory& memory, const Json& requests, device::Stream& stream) {
  const std::vector<device::BufferView> parts =
      parts_of_state(memory, blocks_of(requests), state_slots_of(requests));
  std::string state;
  if (bytes_of(parts) > kMostStateBytes) return state;
  state.reserve(bytes_of(parts));
  std::vector<char> bytes;
  for (const device::BufferView& part : parts) {
    bytes.resize(part.bytes);
    stream.copy_to_host(bytes.data(), part.data, part.bytes);
    state.append(bytes.data(), bytes.size());
  }
  return state;
}

std::string file_stem(const cudagraph::Decision& decision) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("quarantine-{}-{}-tokens{}",
                     std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
                     to_string(decision.mode),
                     decision.descriptor.num_tokens);
}

std::filesystem::path write_report(const ShadowCheck& check,
                                   device::Stream& stream,
                                   const QuarantinedStep& step) {
  const std::filesystem::path& folder = check.options().report_folder;
  std::filesystem::create_directories(folder);
  const std::string stem = file_stem(step.decision);
  const std::filesystem::path path = folder / (stem + ".json");
  Json report = {{"format", kFormat},
                 {"engine", check.options().about},
                 {"key",
                  {{"runtime_mode", to_string(step.decision.mode)},
                   {"descriptor", json_of(step.decision.descriptor)}}},
                 {"reason", name(cudagraph::DispatchReason::key_quarantined)},
                 {"num_checks", check.num_checks()},
                 {"cache", layout_json(check.memory())},
                 {"requests", json_of(step.requests, check.memory().batch(), stream)}};
  if (step.difference != nullptr) report["difference"] = json_of(*step.difference);
  if (step.wrong_node != nullptr) {
    report["first_wrong_node"] = to_json(*step.wrong_node);
    const std::string state = save_state(check.memory(), report.at("requests"), stream);
    if (!state.empty()) {
      report["state_file"] = stem + ".state";
      write_file(folder / (stem + ".state"), state);
      report["repeat_with"] = fmt::format("reprise graph bisect {}", path.string());
    }
  }
  write_file(path, report.dump(2));
  return path;
}

}  // namespace

std::filesystem::path write_quarantine_report(const ShadowCheck& check,
                                              device::Stream& stream,
                                              const QuarantinedStep& step) {
  if (check.options().report_folder.empty()) return {};
  try {
    return write_report(check, stream, step);
  } catch (const std::exception& error) {
    if (check.options().log) {
      check.options().log(fmt::format("no report of a wrong replay: {}", error.what()));
    }
    return {};
  }
}

SavedStep::SavedStep(const std::filesystem::path& report) : path_(report) {
  try {
    report_ = parse_json(read_file(report, kMostReportBytes), report.string());
    if (report_.at("format") != kFormat) throw Error("another format of reports");
    const std::filesystem::path file(report_.at("state_file").get<std::string>());
    const std::string bytes = read_file(report.parent_path() / file.filename(), kMostStateBytes);
    const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
    state_.assign(begin, begin + bytes.size());
    const Json& key = report_.at("key");
    decision_.mode = key.at("runtime_mode") == "FULL" ? CudagraphRuntimeMode::FULL
                                                      : CudagraphRuntimeMode::PIECEWISE;
    const Json& descriptor = key.at("descriptor");
    decision_.descriptor = {.num_tokens = descriptor.at("num_tokens").get<int32_t>(),
                            .uniform = descriptor.at("uniform").get<bool>(),
                            .has_lora = descriptor.at("has_lora").get<bool>(),
                            .num_active_loras = descriptor.at("num_active_loras").get<int32_t>()};
    if (!descriptor.at("num_reqs").is_null()) {
      decision_.descriptor.num_reqs = descriptor.at("num_reqs").get<int32_t>();
    }
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {
    throw FileError("E_REPORT",
                    report.string(),
                    "",
                    fmt::format("is no report with the state of a step ({})", error.what()));
  }
}

void SavedStep::load_into(const StepMemory& memory, device::Stream& stream) {
  if (report_.at("cache") != layout_json(memory)) {
    throw InvalidArgument(
        fmt::format("{}: the caches of this engine ({}) are not those of the report ({}); give the "
                    "model and the options of the report",
                    path_.string(),
                    layout_json(memory).dump(),
                    report_.at("cache").dump()));
  }
  const Json& requests = report_.at("requests");
  // The blocks get the first numbers, because this cache may be smaller. Number 0 is the null
  // block.
  const std::vector<int32_t> old_blocks = blocks_of(requests);
  std::vector<int32_t> blocks(old_blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i) + 1;
  std::vector<int32_t> slots;
  for (size_t i = 0; i < requests.size(); ++i) {
    slots.push_back(static_cast<int32_t>(new_state_slot(memory, i)));
  }
  if (std::cmp_greater_equal(blocks.size(), memory.kv_cache().layout().num_blocks)) {
    throw InvalidArgument(fmt::format("{}: the step needs {} cache blocks, and this engine has {}",
                                      path_.string(),
                                      blocks.size(),
                                      memory.kv_cache().layout().num_blocks - 1));
  }
  const std::vector<device::BufferView> parts = parts_of_state(memory, blocks, slots);
  if (bytes_of(parts) != state_.size()) {
    throw FileError("E_REPORT", path_.string(), "state_file", "has another length than the step");
  }
  const std::byte* from = state_.data();
  for (const device::BufferView& part : parts) {
    stream.copy_from_host(part.data, from, part.bytes);
    from += part.bytes;
  }
  make_requests(old_blocks, memory);
}

/// `old_blocks`: ascending; the new numbers are 1, 2, ...
void SavedStep::make_requests(std::span<const int32_t> old_blocks, const StepMemory& memory) {
  const Json& requests = report_.at("requests");
  const auto new_ids = [&](const Json& ids) {
    std::vector<BlockId> result;
    for (const int32_t id : ids.get<std::vector<int32_t>>()) {
      const auto found = std::ranges::lower_bound(old_blocks, id);
      result.push_back(BlockId{static_cast<int32_t>(found - old_blocks.begin()) + 1});
    }
    return result;
  };
  for (const Json& request : requests) {
    tokens_.push_back(request.at("token_ids").get<std::vector<int32_t>>());
    blocks_.push_back(new_ids(request.at("block_ids")));
    of_encoder_.push_back(new_ids(request.at("encoder_block_ids")));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Json& request = requests[i];
    const auto number = [&](const char* member) { return request.at(member).get<int32_t>(); };
    entries_.push_back({.token_ids = tokens_[i],
                        .num_computed_tokens = number("num_computed_tokens"),
                        .block_ids = blocks_[i],
                        .state_slot = new_state_slot(memory, i),
                        .encoder_len = number("encoder_len"),
                        .encoder_block_ids = of_encoder_[i],
                        .second_text_begin = number("second_text_begin"),
                        .samples = request.at("samples").get<bool>(),
                        .num_drafts = number("num_drafts"),
                        .num_padding_tokens = number("num_padding_tokens"),
                        .first_prompt_logit = number("first_prompt_logit"),
                        .num_prompt_logits = number("num_prompt_logits")});
  }
}

}  // namespace reprise::runner
