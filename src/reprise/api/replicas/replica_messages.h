#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/engine_stats.h"
#include "reprise/engine/output_delta.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::api {

/// The messages between replicas: engines with the same model, of which one has the server.
enum class MessageKind : uint8_t {
  ready,        // to the frontend: this replica has loaded its model
  add,          // to a replica: answer this request
  abort,        // to a replica: end this request
  delta,        // to the frontend: what a step added to a request
  wave,         // to all: a wave of common steps begins
  stats,        // to the frontend: the state of the engine
  reset_cache,  // to a replica: drop all cached prefixes
  cache_reset,  // to the frontend: the answer
  stop,         // to a replica: end
  stopped,      // to the frontend: the last message of this replica
};

struct AddMessage {
  uint64_t id = 0;
  std::vector<int32_t> prompt_token_ids;
  sampling::SamplingParams params;
  int priority = 0;
  std::string cache_salt;
  std::string client_id;
};

using Bytes = std::vector<std::byte>;

[[nodiscard]] Bytes write_message(MessageKind kind);
/// abort: a request's id; wave: its number; cache_reset: 0 or 1.
[[nodiscard]] Bytes write_message(MessageKind kind, uint64_t number);
[[nodiscard]] Bytes write_message(const AddMessage& message);
[[nodiscard]] Bytes write_message(const engine::OutputDelta& delta);
[[nodiscard]] Bytes write_message(const EngineStats& stats);

// Reading. \throws Error for a message that is cut short or too long
[[nodiscard]] MessageKind kind_of_message(std::span<const std::byte> message);
[[nodiscard]] uint64_t read_number(std::span<const std::byte> message);
[[nodiscard]] AddMessage read_add_message(std::span<const std::byte> message);
[[nodiscard]] engine::OutputDelta read_delta_message(std::span<const std::byte> message);
/// `stats` already has the bounds of its histograms, which are not part of the message.
void read_stats_message(std::span<const std::byte> message, EngineStats& stats);

}  // namespace reprise::api
