#include "reprise/cudagraph/cudagraph_dispatcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/cudagraph/capture_sizes.h"

namespace reprise::cudagraph {
namespace {

// The order of the capture plan: PIECEWISE before FULL, mixed batches before uniform ones, and then
// the largest first. PIECEWISE graphs and mixed batches need more memory for activations, so FULL
// graphs that are captured later fit into memory that is already reserved.
auto plan_rank(CudagraphRuntimeMode mode, const BatchDescriptor& d) {
  return std::tuple(mode, d.uniform, -d.num_tokens, -d.num_active_loras, d.num_reqs.value_or(-1));
}

void check_ladder(std::string_view what, const std::vector<int32_t>& sizes) {
  int32_t previous = 0;
  for (int32_t size : sizes) {
    if (size <= previous) {
      throw InvalidArgument(fmt::format(
          "{}: expected positive ascending sizes, got {} after {}", what, size, previous));
    }
    previous = size;
  }
}

void check_decode_sizes(const std::vector<int32_t>& sizes, int32_t q, int32_t max_num_seqs) {
  for (int32_t size : sizes) {
    if (size % q != 0 || size / q > max_num_seqs) {
      throw InvalidArgument(
          fmt::format("decode capture size {}: expected a multiple of the decode query length {} "
                      "with at most {} requests (max_num_seqs)",
                      size,
                      q,
                      max_num_seqs));
    }
  }
}

void check_decode_sizes(const DispatcherOptions& options) {
  check_decode_sizes(
      options.decode_capture_sizes, options.uniform_decode_query_len, options.max_num_seqs);
  std::vector<int32_t> query_lens = {options.uniform_decode_query_len};
  for (const DecodeWidth& width : options.other_decode_widths) {
    if (width.query_len < 1 || std::ranges::find(query_lens, width.query_len) != query_lens.end()) {
      throw InvalidArgument(fmt::format(
          "decode query length {}: expected at least 1 and each length once", width.query_len));
    }
    query_lens.push_back(width.query_len);
    check_decode_sizes(width.capture_sizes, width.query_len, options.max_num_seqs);
  }
}

// Rejects a compile size that padding would enlarge: the program for that size would never run.
void check_compile_sizes(const DispatcherOptions& options) {
  const auto& mixed = options.mixed_capture_sizes;
  const auto contains = [](const std::vector<int32_t>& sizes, int32_t size) {
    return std::binary_search(sizes.begin(), sizes.end(), size);
  };
  for (int32_t size : options.compile_sizes) {
    const auto fit = std::lower_bound(mixed.begin(), mixed.end(), size);
    if (fit == mixed.end() || *fit == size) continue;
    if (contains(options.decode_capture_sizes, size)) continue;
    if (std::ranges::any_of(options.other_decode_widths, [&](const DecodeWidth& width) {
          return contains(width.capture_sizes, size);
        })) {
      continue;
    }
    throw InvalidArgument(
        fmt::format("compile_sizes: {} would be padded to {} and never run; use values from the "
                    "capture sizes {}",
                    size,
                    *fit,
                    fmt::join(mixed, ", ")));
  }
}

void check_options(const DispatcherOptions& options) {
  if (requires_piecewise_compilation(options.mode) && !options.piecewise_available) {
    throw InvalidArgument(
        fmt::format("cudagraph_mode {} needs the model in pieces: compile with VLLM_COMPILE and "
                    "splitting_ops that contain attention, use breakable capture, or choose "
                    "FULL_DECODE_ONLY, FULL or NONE",
                    to_string(options.mode)));
  }
  if (options.uniform_decode_query_len < 1 || options.max_num_seqs < 1) {
    throw InvalidArgument(
        fmt::format("dispatcher: expected a decode query length and max_num_seqs of at least 1, "
                    "got {} and {}",
                    options.uniform_decode_query_len,
                    options.max_num_seqs));
  }
  check_ladder("capture sizes", options.mixed_capture_sizes);
  check_ladder("decode capture sizes", options.decode_capture_sizes);
  for (const DecodeWidth& width : options.other_decode_widths) {
    check_ladder(fmt::format("decode capture sizes of query length {}", width.query_len),
                 width.capture_sizes);
  }
}

}  // namespace

std::string_view to_string(KeyState state) noexcept {
  switch (state) {
    case KeyState::planned:
      return "planned";
    case KeyState::captured:
      return "captured";
    case KeyState::retired:
      return "retired";
    case KeyState::quarantined:
      return "quarantined";
    case KeyState::dropped:
      return "dropped";
  }
  return "unknown";
}

void CudagraphDispatcher::initialize_cudagraph_keys(const DispatcherOptions& options) {
  DispatcherOptions checked = options;
  check_options(checked);
  if (!separate_routine(checked.mode)) {
    checked.decode_capture_sizes.clear();
    checked.other_decode_widths.clear();
  } else if (is_of_first_runner(checked.rule)) {
    checked.decode_capture_sizes = decode_sizes_within(
        checked.mixed_capture_sizes, checked.uniform_decode_query_len, checked.max_num_seqs);
    checked.other_decode_widths.clear();
  }
  check_decode_sizes(checked);
  if (checked.mode != CudagraphMode::NONE) check_compile_sizes(checked);

  options_ = std::move(checked);
  decode_query_lens_ = {options_.uniform_decode_query_len};
  for (const DecodeWidth& width : options_.other_decode_widths) {
    decode_query_lens_.push_back(width.query_len);
  }
  lora_cases_ = LoraCases(options_.lora, options_.specialize_lora, options_.rule);
  keys_.clear();
  const size_t num_cases = lora_cases_.counts().size();
  ladders_.assign(ladder_index(0, static_cast<int32_t>(num_cases)), Ladder{});
  largest_tokens_ = 0;
  initialised_ = true;
  if (options_.mode == CudagraphMode::NONE) return;

  for (int32_t lora_case = 0; std::cmp_less(lora_case, num_cases); ++lora_case) {
    plan_mixed_keys(lora_case);
    for (size_t width = 0; width < decode_query_lens_.size(); ++width) {
      plan_decode_keys(lora_case, static_cast<int32_t>(width));
    }
  }
  std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) {
    return plan_rank(a.mode, a.descriptor) < plan_rank(b.mode, b.descriptor);
  });
  for (size_t i = keys_.size(); i-- > 0;) {  // the plan order is descending, rungs are ascending
    ladder(keys_[i].kind, keys_[i].lora_case).rungs.push_back(static_cast<int32_t>(i));
  }
  for (Ladder& each : ladders_) build_tables(each);
}

std::vector<PlannedKey> CudagraphDispatcher::replan(const DispatcherOptions& options) {
  std::vector<Key> before = keys_;
  initialize_cudagraph_keys(options);
  before.insert(before.end(), taken_out_.begin(), taken_out_.end());
  taken_out_.clear();
  std::vector<PlannedKey> dropped;
  for (Key& old : before) {
    const int32_t index = find_key(old.mode, old.descriptor);
    if (index >= 0) {
      Key& key = keys_[static_cast<size_t>(index)];
      key.state = old.state;
      key.retired_because = std::move(old.retired_because);
    } else if (old.is_retired()) {
      taken_out_.push_back(std::move(old));
    } else if (old.state == KeyState::captured) {
      dropped.push_back({old.mode, old.descriptor});
    }
  }
  for (Ladder& each : ladders_) build_tables(each);
  return dropped;
}

void CudagraphDispatcher::plan_mixed_keys(int32_t lora_case) {
  const CudagraphRuntimeMode mode = mixed_mode(options_.mode);
  if (mode == CudagraphRuntimeMode::NONE) return;
  const int32_t num_loras = lora_cases_.counts()[static_cast<size_t>(lora_case)];
  for (int32_t size : options_.mixed_capture_sizes) {
    BatchDescriptor descriptor{.num_tokens = size,
                               .num_reqs = std::nullopt,
                               .uniform = false,
                               .has_lora = num_loras > 0,
                               .num_active_loras = num_loras};
    LadderKind kind = kPiecewise;
    if (mode == CudagraphRuntimeMode::FULL) {
      descriptor.num_reqs = std::min(size, options_.max_num_seqs);
      kind = kFullGeneral;
    }
    keys_.push_back({mode, descriptor, kind, lora_case, size, KeyState::planned, {}});
  }
}

void CudagraphDispatcher::plan_decode_keys(int32_t lora_case, int32_t width) {
  const int32_t num_loras = lora_cases_.counts()[static_cast<size_t>(lora_case)];
  for (int32_t size : decode_sizes_of(width)) {
    const int32_t num_reqs = size / decode_query_lens_[static_cast<size_t>(width)];
    const BatchDescriptor descriptor{.num_tokens = size,
                                     .num_reqs = num_reqs,
                                     .uniform = true,
                                     .has_lora = num_loras > 0,
                                     .num_active_loras = num_loras};
    keys_.push_back({CudagraphRuntimeMode::FULL,
                     descriptor,
                     kFullUniform + width,
                     lora_case,
                     follows_vllm_v1() ? size : num_reqs,
                     KeyState::planned,
                     {}});
  }
}

// Fills both tables. Rule vllm pads a batch first and then needs a key of exactly the padded size.
// The other rules take the smallest rung that fits.
void CudagraphDispatcher::build_tables(Ladder& ladder) {
  const auto is_dropped = [&](int32_t key) {
    return keys_[static_cast<size_t>(key)].state == KeyState::dropped;
  };
  const auto need_of = [&](int32_t key) { return keys_[static_cast<size_t>(key)].need; };
  largest_tokens_ = 0;
  for (const Key& key : keys_) {
    if (key.state == KeyState::dropped) continue;
    largest_tokens_ = std::max(largest_tokens_, key.descriptor.num_tokens);
  }
  std::vector<int32_t> rungs = ladder.rungs;
  std::erase_if(rungs, is_dropped);
  ladder.planned.clear();
  ladder.live.clear();
  if (rungs.empty()) return;
  const PaddingTable padding =
      follows_vllm_v1() ? PaddingTable(options_.mixed_capture_sizes) : PaddingTable();
  const int32_t largest = follows_vllm_v1() ? padding.max() : need_of(rungs.back());
  ladder.planned.assign(static_cast<size_t>(largest) + 1, -1);
  size_t rung = 0;
  for (int32_t need = 1; need <= largest; ++need) {
    while (rung < rungs.size() && need_of(rungs[rung]) < need) ++rung;
    if (rung == rungs.size()) break;
    const int32_t key = rungs[rung];
    if (!follows_vllm_v1() || need_of(key) == padding.padded(need)) {
      ladder.planned[static_cast<size_t>(need)] = key;
    }
  }
  ladder.live.assign(ladder.planned.size(), -1);
  refresh_live_table(ladder);
}

void CudagraphDispatcher::refresh_live_table(Ladder& ladder) const {
  const auto is_live = [&](int32_t key) {
    return key >= 0 && keys_[static_cast<size_t>(key)].state == KeyState::captured;
  };
  if (follows_vllm_v1()) {
    for (size_t need = 0; need < ladder.planned.size(); ++need) {
      ladder.live[need] = is_live(ladder.planned[need]) ? ladder.planned[need] : -1;
    }
    return;
  }
  int32_t smallest_fit = -1;
  for (size_t need = ladder.planned.size(); need-- > 1;) {
    // Going down from the largest need: a captured rung replaces the next larger one for every need
    // up to its own size.
    const int32_t planned = ladder.planned[need];
    if (is_live(planned)) smallest_fit = planned;
    ladder.live[need] = smallest_fit;
  }
}

CudagraphDispatcher::LookUp CudagraphDispatcher::look_up(LadderKind kind,
                                                         int32_t lora_case,
                                                         int32_t need) const noexcept {
  const Ladder& found = ladders_[ladder_index(kind, lora_case)];
  if (need < 0 || static_cast<size_t>(need) >= found.planned.size()) return {};
  return {found.planned[static_cast<size_t>(need)], found.live[static_cast<size_t>(need)]};
}

int32_t CudagraphDispatcher::decode_width_of(const BatchFacts& batch) const noexcept {
  if (!batch.uniform || !separate_routine(options_.mode)) return -1;
  if (batch.query_len == 0) return 0;
  const auto found = std::ranges::find(decode_query_lens_, batch.query_len);
  return found == decode_query_lens_.end()
             ? -1
             : static_cast<int32_t>(found - decode_query_lens_.begin());
}

CudagraphDispatcher::LookUp CudagraphDispatcher::look_up_full(const BatchFacts& batch,
                                                              int32_t lora_case) const noexcept {
  const int32_t width = decode_width_of(batch);
  const auto keys_of = [&](LadderKind kind) -> LookUp {
    if (follows_vllm_v1()) return look_up(kind, lora_case, batch.num_tokens);
    // A FULL graph has a fixed number of requests, so both the tokens and the requests must fit.
    if (batch.num_reqs > options_.max_num_seqs) return {};
    if (kind == kFullGeneral) {
      return look_up(kind, lora_case, std::max(batch.num_tokens, batch.num_reqs));
    }
    const int32_t q = decode_query_lens_[static_cast<size_t>(width)];
    const int32_t num_reqs_of_tokens = batch.num_tokens / q + (batch.num_tokens % q != 0 ? 1 : 0);
    return look_up(kind, lora_case, std::max(batch.num_reqs, num_reqs_of_tokens));
  };
  if (width < 0) return keys_of(kFullGeneral);
  const LookUp uniform = keys_of(kFullUniform + width);
  if (uniform.live >= 0 || mixed_mode(options_.mode) != CudagraphRuntimeMode::FULL) return uniform;
  // Mode FULL_AND_FULL: graphs of mixed batches also serve decode batches. The planned key stays
  // that of the decode graph, because it explains the decision.
  const LookUp general = keys_of(kFullGeneral);
  return uniform.planned < 0 ? general : LookUp{uniform.planned, general.live};
}

CudagraphDispatcher::LookUp CudagraphDispatcher::look_up_piecewise(
    const BatchFacts& batch, int32_t lora_case) const noexcept {
  return look_up(kPiecewise, lora_case, batch.num_tokens);
}

Decision CudagraphDispatcher::dispatch(const BatchFacts& batch) const noexcept {
  const auto eager = [&](DispatchReason reason) {
    Decision decision;
    decision.descriptor.num_tokens = batch.num_tokens;
    decision.reason = reason;
    return decision;
  };
  const auto hit = [&](int32_t key, DispatchReason reason) {
    const Key& found = keys_[static_cast<size_t>(key)];
    return Decision{found.mode, found.descriptor, reason};
  };
  if (!initialised_) return eager(DispatchReason::not_initialised);
  if (options_.mode == CudagraphMode::NONE) return eager(DispatchReason::mode_none);
  bool piecewise_allowed = batch.allowed.contains(CudagraphRuntimeMode::PIECEWISE);
  bool full_allowed = batch.allowed.contains(CudagraphRuntimeMode::FULL);
  if (!full_allowed && !piecewise_allowed) return eager(DispatchReason::only_none_allowed);
  if (batch.num_tokens <= 0) return eager(DispatchReason::empty_batch);
  const int32_t lora_case = lora_cases_.case_index(batch.num_active_loras);
  if (lora_case < 0) return eager(DispatchReason::lora_count_not_captured);
  full_allowed =
      full_allowed && !batch.cascade && !batch.encoder_outputs && has_rows(batch, batch.num_reqs);
  piecewise_allowed = piecewise_allowed && has_rows(batch, options_.max_num_seqs);

  const LookUp full = look_up_full(batch, lora_case);
  if (full_allowed && is_quarantined(full)) return eager(DispatchReason::key_quarantined);
  if (full_allowed && full.live >= 0) {
    const bool is_uniform = keys_[static_cast<size_t>(full.live)].descriptor.uniform;
    if (full.live == full.planned) {
      return hit(full.live,
                 is_uniform ? DispatchReason::full_uniform : DispatchReason::full_general);
    }
    const bool has_decode_key = keys_[static_cast<size_t>(full.planned)].descriptor.uniform;
    return hit(full.live,
               has_decode_key && !is_uniform ? DispatchReason::full_of_mixed_batches
                                             : DispatchReason::full_larger_size);
  }
  const LookUp piecewise = look_up_piecewise(batch, lora_case);
  if (piecewise_allowed && is_quarantined(piecewise)) {
    return eager(DispatchReason::key_quarantined);
  }
  if (piecewise_allowed && piecewise.live >= 0) {
    return hit(piecewise.live, piecewise_reason(batch, full, piecewise));
  }
  return eager(eager_reason(batch, full, piecewise));
}

DispatchReason CudagraphDispatcher::piecewise_reason(const BatchFacts& batch,
                                                     LookUp full,
                                                     LookUp piecewise) const noexcept {
  if (routine_of(batch) == CudagraphRuntimeMode::FULL) return relaxed_reason(batch, full);
  if (piecewise.live != piecewise.planned) return DispatchReason::piecewise_larger_size;
  return batch.ragged_drafts ? DispatchReason::piecewise_ragged_drafts : DispatchReason::piecewise;
}

DispatchReason CudagraphDispatcher::relaxed_reason(const BatchFacts& batch,
                                                   LookUp full) const noexcept {
  if (full.planned < 0) return DispatchReason::piecewise_no_decode_size;
  if (batch.cascade) return DispatchReason::piecewise_cascade;
  if (batch.encoder_outputs) return DispatchReason::piecewise_encoder_outputs;
  if (!has_rows(batch, batch.num_reqs)) return DispatchReason::piecewise_more_logits_rows;
  if (!batch.allowed.contains(CudagraphRuntimeMode::FULL)) {
    return DispatchReason::piecewise_full_not_allowed;
  }
  return keys_[static_cast<size_t>(full.planned)].is_retired()
             ? DispatchReason::piecewise_full_retired
             : DispatchReason::piecewise_full_not_captured;
}

DispatchReason CudagraphDispatcher::eager_reason(const BatchFacts& batch,
                                                 LookUp full,
                                                 LookUp piecewise) const noexcept {
  const auto unavailable = [&](int32_t key) {
    return keys_[static_cast<size_t>(key)].is_retired() ? DispatchReason::key_retired
                                                        : DispatchReason::key_not_captured;
  };
  // If a PIECEWISE key fits, the state of that key explains the eager step better than the FULL
  // key.
  if (piecewise.planned >= 0) {
    if (!batch.allowed.contains(CudagraphRuntimeMode::PIECEWISE)) {
      return DispatchReason::mode_not_allowed;
    }
    if (!has_rows(batch, options_.max_num_seqs)) return DispatchReason::more_logits_rows;
    return unavailable(piecewise.planned);
  }
  if (full.planned >= 0) {
    if (batch.cascade) return DispatchReason::cascade;
    if (batch.encoder_outputs) return DispatchReason::encoder_outputs;
    if (!has_rows(batch, batch.num_reqs)) return DispatchReason::more_logits_rows;
    if (!batch.allowed.contains(CudagraphRuntimeMode::FULL)) {
      return DispatchReason::mode_not_allowed;
    }
    return unavailable(full.planned);
  }
  if (routine_of(batch) == CudagraphRuntimeMode::NONE) {
    return batch.ragged_drafts ? DispatchReason::ragged_drafts
                               : DispatchReason::mixed_batches_run_eager;
  }
  if (batch.num_tokens > largest_tokens_) return DispatchReason::exceeds_largest_size;
  if (batch.num_reqs > options_.max_num_seqs) return DispatchReason::more_requests_than_captured;
  return takes_decode_routine(batch) ? DispatchReason::no_decode_size
                                     : DispatchReason::exceeds_largest_size;
}

std::vector<CaptureGroup> CudagraphDispatcher::capture_plan() const {
  std::vector<CaptureGroup> plan;
  for (const Key& key : keys_) {
    if (key.state == KeyState::dropped) continue;
    if (plan.empty() || plan.back().mode != key.mode ||
        plan.back().uniform != key.descriptor.uniform) {
      plan.push_back({key.mode, key.descriptor.uniform, {}});
    }
    plan.back().descriptors.push_back(key.descriptor);
  }
  return plan;
}

int32_t CudagraphDispatcher::find_key(CudagraphRuntimeMode mode,
                                      const BatchDescriptor& descriptor) const noexcept {
  const auto wanted = plan_rank(mode, descriptor);
  const auto found =
      std::lower_bound(keys_.begin(), keys_.end(), wanted, [](const Key& key, const auto& rank) {
        return plan_rank(key.mode, key.descriptor) < rank;
      });
  if (found == keys_.end() || found->mode != mode || found->descriptor != descriptor) return -1;
  return static_cast<int32_t>(found - keys_.begin());
}

void CudagraphDispatcher::mark_captured(CudagraphRuntimeMode mode,
                                        const BatchDescriptor& descriptor) {
  const int32_t index = find_key(mode, descriptor);
  REPRISE_ASSERT(index >= 0,
                 "captured a key that was not planned: {} {}",
                 to_string(mode),
                 to_string(descriptor));
  Key& key = keys_[static_cast<size_t>(index)];
  REPRISE_ASSERT(
      !key.is_retired(), "captured a retired key: {} {}", to_string(mode), to_string(descriptor));
  key.state = KeyState::captured;
  refresh_live_table(ladder(key.kind, key.lora_case));
}

void CudagraphDispatcher::mark_all_captured() {
  for (Key& key : keys_) {
    if (key.state == KeyState::planned) key.state = KeyState::captured;
  }
  for (Ladder& each : ladders_) refresh_live_table(each);
}

bool CudagraphDispatcher::retire(CudagraphRuntimeMode mode,
                                 const BatchDescriptor& descriptor,
                                 std::string reason,
                                 Retirement retirement) {
  const int32_t index = find_key(mode, descriptor);
  if (index < 0) return false;
  Key& key = keys_[static_cast<size_t>(index)];
  if (key.is_retired()) return false;
  switch (retirement) {
    case Retirement::retired:
      key.state = KeyState::retired;
      break;
    case Retirement::quarantined:
      key.state = KeyState::quarantined;
      break;
    case Retirement::dropped:
      key.state = KeyState::dropped;
      break;
  }
  key.retired_because = std::move(reason);
  build_tables(ladder(key.kind, key.lora_case));
  return true;
}

bool CudagraphDispatcher::release(CudagraphRuntimeMode mode, const BatchDescriptor& descriptor) {
  const int32_t index = find_key(mode, descriptor);
  if (index < 0) return false;
  Key& key = keys_[static_cast<size_t>(index)];
  key.state = KeyState::planned;
  key.retired_because.clear();
  build_tables(ladder(key.kind, key.lora_case));
  return true;
}

bool CudagraphDispatcher::is_captured(CudagraphRuntimeMode mode,
                                      const BatchDescriptor& descriptor) const noexcept {
  const int32_t index = find_key(mode, descriptor);
  return index >= 0 && keys_[static_cast<size_t>(index)].state == KeyState::captured;
}

std::vector<BatchDescriptor> CudagraphDispatcher::keys(CudagraphRuntimeMode mode) const {
  std::vector<BatchDescriptor> descriptors;
  for (const Key& key : keys_) {
    if (key.mode == mode) descriptors.push_back(key.descriptor);
  }
  return descriptors;
}

std::vector<KeyStatus> CudagraphDispatcher::key_states() const {
  std::vector<KeyStatus> states;
  states.reserve(keys_.size());
  for (const Key& key : keys_) {
    states.push_back({{key.mode, key.descriptor}, key.state, key.retired_because});
  }
  return states;
}

std::optional<PlannedKey> CudagraphDispatcher::next_planned() const noexcept {
  const auto found = std::ranges::find(keys_, KeyState::planned, &Key::state);
  if (found == keys_.end()) return {};
  return PlannedKey{found->mode, found->descriptor};
}

std::optional<PlannedKey> CudagraphDispatcher::uncaptured_key(
    const BatchFacts& batch) const noexcept {
  if (!initialised_ || options_.mode == CudagraphMode::NONE || batch.num_tokens <= 0) return {};
  const int32_t lora_case = lora_cases_.case_index(batch.num_active_loras);
  if (lora_case < 0) return {};
  const bool full_fits = batch.allowed.contains(CudagraphRuntimeMode::FULL) && !batch.cascade &&
                         !batch.encoder_outputs && has_rows(batch, batch.num_reqs);
  const bool piecewise_fits = batch.allowed.contains(CudagraphRuntimeMode::PIECEWISE) &&
                              has_rows(batch, options_.max_num_seqs);
  const std::array<int32_t, 2> by_preference = {
      full_fits ? look_up_full(batch, lora_case).planned : -1,
      piecewise_fits ? look_up_piecewise(batch, lora_case).planned : -1};
  for (const int32_t index : by_preference) {
    if (index < 0) continue;
    const Key& key = keys_[static_cast<size_t>(index)];
    if (key.state == KeyState::captured) return {};
    if (key.state == KeyState::planned) return PlannedKey{key.mode, key.descriptor};
  }
  return {};
}

std::string CudagraphDispatcher::describe(const BatchFacts& batch, const Decision& decision) const {
  std::string text(to_string(decision.reason));
  const int32_t lora_case = initialised_ ? lora_cases_.case_index(batch.num_active_loras) : -1;
  const auto add_cause = [&](LookUp found) {
    if (found.planned < 0) return;
    const Key& key = keys_[static_cast<size_t>(found.planned)];
    text += fmt::format(" ({} {}", to_string(key.mode), to_string(key.descriptor));
    if (key.is_retired()) text += ": " + key.retired_because;
    text += ")";
  };
  switch (decision.reason) {
    case DispatchReason::exceeds_largest_size:
      text += fmt::format(" ({} > {})", batch.num_tokens, largest_tokens_);
      break;
    case DispatchReason::more_requests_than_captured:
      text += fmt::format(" ({} > max_num_seqs {})", batch.num_reqs, options_.max_num_seqs);
      break;
    case DispatchReason::lora_count_not_captured:
      text += fmt::format(" ({}; captured counts: {})",
                          batch.num_active_loras,
                          fmt::join(lora_cases_.counts(), ", "));
      break;
    case DispatchReason::piecewise_no_decode_size:
    case DispatchReason::no_decode_size: {
      const int32_t width = std::max(decode_width_of(batch), 0);
      int32_t most_reqs = 0;
      for (const Key& key : keys_) {
        if (key.kind != kFullUniform + width || key.state == KeyState::dropped) continue;
        most_reqs = std::max(most_reqs, key.descriptor.num_reqs.value_or(0));
      }
      text += most_reqs == 0 ? std::string(" (no decode sizes at all)")
                             : fmt::format(" (decode sizes go up to {} requests)", most_reqs);
      break;
    }
    case DispatchReason::piecewise_full_retired:
    case DispatchReason::piecewise_full_not_captured:
    case DispatchReason::full_larger_size:
    case DispatchReason::full_of_mixed_batches:
      add_cause(look_up_full(batch, lora_case));
      break;
    case DispatchReason::piecewise_larger_size:
      add_cause(look_up_piecewise(batch, lora_case));
      break;
    case DispatchReason::key_quarantined: {
      const LookUp full = look_up_full(batch, lora_case);
      add_cause(is_quarantined(full) ? full : look_up_piecewise(batch, lora_case));
      break;
    }
    case DispatchReason::key_retired:
    case DispatchReason::key_not_captured: {
      const LookUp piecewise = look_up_piecewise(batch, lora_case);
      add_cause(piecewise.planned >= 0 ? piecewise : look_up_full(batch, lora_case));
      break;
    }
    default:
      break;
  }
  return text;
}

}  // namespace reprise::cudagraph
