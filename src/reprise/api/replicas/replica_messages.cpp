#include "reprise/api/replicas/replica_messages.h"

#include <array>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

// Each function names the members of a type once, for writing and for reading.
template <typename Archive, typename T>
void members(Archive& a, T& x);

template <typename T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

/// Writes values one after the other. All replicas run the same program, so the bytes need no
/// names and no versions.
class MessageWriter {
 public:
  template <typename... T>
  void operator()(const T&... values) {
    (write(values), ...);
  }
  [[nodiscard]] Bytes take() { return std::move(bytes_); }

 private:
  template <Plain T>
  void write(const T& value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof value);
  }
  void write(const std::string& text) { write_all(text); }
  template <typename T>
  void write(const std::vector<T>& values) {
    write_all(values);
  }
  template <typename T, size_t N>
  void write(const std::array<T, N>& values) {
    for (const T& value : values) write(value);
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <typename A, typename B>
  void write(const std::pair<A, B>& pair) {
    write(pair.first);
    write(pair.second);
  }
  void write(const scheduler::StopReason& reason) {
    write(static_cast<uint8_t>(reason.index()));
    if (const auto* token = std::get_if<int32_t>(&reason)) write(*token);
    if (const auto* text = std::get_if<std::string>(&reason)) write(*text);
  }
  void write(const Histogram& histogram) {
    write(std::vector<uint64_t>(histogram.counts().begin(), histogram.counts().end()));
    write(histogram.sum());
  }
  template <typename T>
    requires(!Plain<T>)
  void write(const T& value) {
    members(*this, value);
  }
  template <typename Range>
  void write_all(const Range& values) {
    write(static_cast<uint64_t>(values.size()));
    for (const auto& value : values) write(value);
  }

  Bytes bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (read(values), ...);
  }
  void finish() const {
    if (!bytes_.empty()) throw Error("a message between replicas is too long");
  }

 private:
  template <Plain T>
  void read(T& value) {
    require(sizeof value);
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  void read(bool& value) {
    uint8_t byte = 0;
    read(byte);
    value = byte != 0;
  }
  void read(std::string& text) { read_all(text); }
  template <typename T>
  void read(std::vector<T>& values) {
    read_all(values);
  }
  template <typename T, size_t N>
  void read(std::array<T, N>& values) {
    for (T& value : values) read(value);
  }
  template <typename T>
  void read(std::optional<T>& value) {
    bool is_set = false;
    read(is_set);
    value.reset();
    if (is_set) read(value.emplace());
  }
  template <typename A, typename B>
  void read(std::pair<A, B>& pair) {
    read(pair.first);
    read(pair.second);
  }
  void read(scheduler::StopReason& reason) {
    uint8_t index = 0;
    read(index);
    reason = {};
    if (index == 1) read(reason.emplace<int32_t>());
    if (index == 2) read(reason.emplace<std::string>());
  }
  void read(Histogram& histogram) {
    std::vector<uint64_t> counts;
    double sum = 0;
    read(counts);
    read(sum);
    histogram.restore(counts, sum);
  }
  template <typename T>
    requires(!Plain<T>)
  void read(T& value) {
    members(*this, value);
  }
  template <typename Range>
  void read_all(Range& values) {
    uint64_t size = 0;
    read(size);
    // Each element has at least one byte, so a wrong size cannot ask for much memory.
    require(size);
    values.resize(size);
    for (auto& value : values) read(value);
  }
  void require(uint64_t num_bytes) const {
    if (num_bytes > bytes_.size()) throw Error("a message between replicas is cut short");
  }

  std::span<const std::byte> bytes_;
};

template <typename T, typename Wanted>
concept Is = std::is_same_v<std::remove_const_t<T>, Wanted>;

void add_params(auto& a, auto& x) {
  a(x.temperature, x.top_p, x.top_k, x.min_p, x.seed, x.repetition_penalty, x.presence_penalty);
  a(x.frequency_penalty, x.max_tokens, x.min_tokens, x.stop, x.stop_token_ids, x.ignore_eos);
  a(x.include_stop_str_in_output, x.skip_special_tokens, x.logprobs, x.prompt_logprobs);
  a(x.logprob_token_ids, x.logit_bias, x.allowed_token_ids, x.bad_words, x.bad_words_token_ids);
}

void add_delta(auto& a, auto& x) {
  a(x.id, x.text, x.token_ids, x.logprobs, x.prompt_logprobs, x.pooled, x.num_prompt_tokens);
  a(x.num_output_tokens, x.num_cached_tokens, x.finished, x.finish_reason, x.stop_reason);
  a(x.error, x.error_kind);
}

void add_stats(auto& a, auto& x) {
  a(x.num_requests_running, x.num_requests_waiting, x.kv_cache_usage, x.prompt_tokens);
  a(x.prompt_tokens_cached, x.generation_tokens, x.dropped_tokens, x.postponed_tokens);
  a(x.prefix_cache_queries, x.prefix_cache_hits, x.kv_event_payloads_sent);
  a(x.cached_states, x.states_saved, x.states_restored, x.expert_layers, x.expert_tokens);
  a(x.kv_event_payloads_dropped, x.kv_event_payloads_missed);
  a(x.num_preemptions, x.speculation, x.num_steps);
  a(x.num_failed_steps, x.num_finished_stop, x.num_finished_length, x.num_finished_abort);
  a(x.num_finished_error, x.steps_full, x.steps_piecewise, x.steps_eager, x.padding_tokens);
  a(x.is_dead, x.sleep_level, x.decisions, x.draft_decisions, x.num_retired_graphs);
  a(x.shadow, x.draft_shadow);
  a(x.step_times.seconds, x.tokens_per_step, x.requests, x.recent_steps);
}

void add_histograms(auto& a, auto& x) {
  a(x.time_to_first_token, x.inter_token_latency, x.time_per_output_token, x.e2e_latency);
  a(x.queue_time, x.prefill_time, x.decode_time, x.inference_time, x.prompt_tokens);
  a(x.generation_tokens, x.params_max_tokens, x.prefill_computed_tokens);
}

template <typename Archive, typename T>
void members(Archive& a, T& x) {
  if constexpr (Is<T, sampling::SamplingParams>) {
    add_params(a, x);
  } else if constexpr (Is<T, AddMessage>) {
    a(x.id, x.prompt_token_ids, x.params, x.priority, x.cache_salt, x.client_id);
  } else if constexpr (Is<T, engine::OutputDelta>) {
    add_delta(a, x);
  } else if constexpr (Is<T, sampling::PositionLogprobs>) {
    a(x.token, x.top);
  } else if constexpr (Is<T, sampling::TokenLogprob>) {
    a(x.token_id, x.logprob, x.rank);
  } else if constexpr (Is<T, EngineStats>) {
    add_stats(a, x);
  } else if constexpr (Is<T, ShadowStats>) {
    a(x.num_checks, x.num_differences, x.quarantined);
  } else if constexpr (Is<T, ShadowStats::Quarantined>) {
    a(x.mode, x.descriptor, x.difference, x.wrong_node, x.report);
  } else if constexpr (Is<T, RequestHistograms>) {
    add_histograms(a, x);
  } else if constexpr (Is<T, speculative::SpeculationStats>) {
    a(x.num_drafts, x.num_draft_tokens, x.num_accepted_tokens, x.num_accepted_tokens_per_pos);
  } else if constexpr (Is<T, StepRecord>) {
    a(x.index, x.mode, x.descriptor, x.reason, x.num_tokens, x.num_reqs, x.seconds);
  } else if constexpr (Is<T, cudagraph::DispatchLedger::DecisionCount>) {
    a(x.mode, x.descriptor, x.reason, x.count);
  } else {
    static_assert(Is<T, cudagraph::BatchDescriptor>);
    a(x.num_tokens, x.num_reqs, x.uniform, x.has_lora, x.num_active_loras);
  }
}

template <typename... T>
Bytes write(MessageKind kind, const T&... content) {
  MessageWriter writer;
  writer(kind, content...);
  return writer.take();
}

template <typename T>
void read(std::span<const std::byte> message, T& content) {
  MessageReader reader(message);
  MessageKind kind{};
  reader(kind, content);
  reader.finish();
}

}  // namespace

Bytes write_message(MessageKind kind) { return write(kind); }
Bytes write_message(MessageKind kind, uint64_t number) { return write(kind, number); }
Bytes write_message(const AddMessage& message) { return write(MessageKind::add, message); }
Bytes write_message(const engine::OutputDelta& delta) { return write(MessageKind::delta, delta); }
Bytes write_message(const EngineStats& stats) { return write(MessageKind::stats, stats); }

MessageKind kind_of_message(std::span<const std::byte> message) {
  if (message.empty() ||
      static_cast<uint8_t>(message[0]) > static_cast<uint8_t>(MessageKind::stopped)) {
    throw Error("a message between replicas has no known kind");
  }
  return static_cast<MessageKind>(message[0]);
}

uint64_t read_number(std::span<const std::byte> message) {
  uint64_t number = 0;
  read(message, number);
  return number;
}

AddMessage read_add_message(std::span<const std::byte> message) {
  AddMessage content;
  read(message, content);
  return content;
}

engine::OutputDelta read_delta_message(std::span<const std::byte> message) {
  engine::OutputDelta delta;
  read(message, delta);
  return delta;
}

void read_stats_message(std::span<const std::byte> message, EngineStats& stats) {
  read(message, stats);
}

}  // namespace reprise::api
