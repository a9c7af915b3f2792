#include "reprise/kv_cache/events/kv_event_recorder.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "reprise/kv_cache/events/msgpack_writer.h"

namespace reprise::kv_cache {
namespace {

/// vLLM's word for the memory in which the engine computes. vLLM writes GPU on CPUs too.
constexpr std::string_view kMedium = "GPU";
/// vLLM numbers groups of layers with different caches. Reprise has one group.
constexpr uint64_t kGroupIndex = 0;

/// The integer of the last 8 bytes, the first of them most significant, as in vLLM.
uint64_t last_64_bits(const BlockHash& hash) {
  uint64_t bits = 0;
  for (size_t i = hash.size() - 8; i < hash.size(); ++i) {
    bits = bits << 8 | std::to_integer<uint64_t>(hash[i]);
  }
  return bits;
}

}  // namespace

/// Writes the head of an event and then, before each value, its name if the encoding has names.
class KvEventRecorder::Event {
 public:
  Event(KvEventRecorder& recorder, std::string_view kind, size_t num_fields)
      : writer_(recorder.events_), is_array_(recorder.is_array_) {
    ++recorder.num_events_;
    if (is_array_) {
      writer_.array(1 + num_fields);
    } else {
      writer_.map(1 + num_fields);
      writer_.text("type");
    }
    writer_.text(kind);
  }

  MsgpackWriter& field(std::string_view name) {
    if (!is_array_) writer_.text(name);
    return writer_;
  }

 private:
  MsgpackWriter writer_;
  bool is_array_;
};

KvEventRecorder::KvEventRecorder(const KvEventsConfig& config,
                                 std::function<void(std::string)> on_payload,
                                 std::function<Clock::time_point()> now)
    : is_array_(config.encoding == KvEventEncoding::array),
      has_int_hashes_(config.use_int_block_hashes),
      on_payload_(std::move(on_payload)),
      now_(std::move(now)) {}

void KvEventRecorder::on_stored(const StoredBlocks& blocks) {
  constexpr size_t kNumFields = 9;
  Event event(*this, "BlockStored", kNumFields);
  event.field("block_hashes").array(blocks.hashes.size());
  for (const BlockHash& hash : blocks.hashes) write_hash(hash);
  MsgpackWriter& parent = event.field("parent_block_hash");
  if (blocks.parent != nullptr) {
    write_hash(*blocks.parent);
  } else {
    parent.nil();
  }
  event.field("token_ids").array(blocks.token_ids.size());
  MsgpackWriter out(events_);
  for (const int32_t token : blocks.token_ids) out.unsigned_integer(static_cast<uint32_t>(token));
  event.field("block_size").unsigned_integer(static_cast<uint64_t>(blocks.block_size));
  MsgpackWriter& lora_id = event.field("lora_id");
  if (blocks.source->lora_id) {
    lora_id.unsigned_integer(*blocks.source->lora_id);
  } else {
    lora_id.nil();
  }
  event.field("medium").text(kMedium);
  MsgpackWriter& lora_name = event.field("lora_name");
  if (blocks.source->lora_name.empty()) {
    lora_name.nil();
  } else {
    lora_name.text(blocks.source->lora_name);
  }
  (void)event.field("extra_keys");
  write_extra_keys(blocks);
  event.field("group_idx").unsigned_integer(kGroupIndex);
}

/// Writes the facts besides tokens that a router needs to compute hashes: for each block a list, or
/// nil. As in vLLM, only the list of the first block of a prompt contains the salt.
void KvEventRecorder::write_extra_keys(const StoredBlocks& blocks) {
  MsgpackWriter out(events_);
  out.array(blocks.hashes.size());
  const bool has_lora = !blocks.source->lora_name.empty();
  for (size_t i = 0; i < blocks.hashes.size(); ++i) {
    const bool has_salt = i == 0 && blocks.parent == nullptr && !blocks.source->cache_salt.empty();
    if (!has_lora && !has_salt) {
      out.nil();
      continue;
    }
    out.array(static_cast<size_t>(has_lora) + static_cast<size_t>(has_salt));
    if (has_lora) out.text(blocks.source->lora_name);
    if (has_salt) out.text(blocks.source->cache_salt);
  }
}

void KvEventRecorder::on_removed(const BlockHash& hash) {
  constexpr size_t kNumFields = 3;
  Event event(*this, "BlockRemoved", kNumFields);
  event.field("block_hashes").array(1);
  write_hash(hash);
  event.field("medium").text(kMedium);
  event.field("group_idx").unsigned_integer(kGroupIndex);
}

void KvEventRecorder::on_cleared() { Event(*this, "AllBlocksCleared", 0); }

void KvEventRecorder::on_step_end() {
  if (num_events_ == 0) return;
  std::string payload;
  payload.reserve(events_.size() + 16);
  MsgpackWriter out(payload);
  out.array(3);
  out.number(std::chrono::duration<double>(now_().time_since_epoch()).count());
  out.array(num_events_);
  payload += events_;
  out.unsigned_integer(0);
  events_.clear();
  num_events_ = 0;
  on_payload_(std::move(payload));
}

void KvEventRecorder::write_hash(const BlockHash& hash) {
  MsgpackWriter out(events_);
  if (has_int_hashes_) {
    out.unsigned_integer(last_64_bits(hash));
  } else {
    out.bytes(hash);
  }
}

}  // namespace reprise::kv_cache
