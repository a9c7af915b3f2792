#include "reprise/runner/rank_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "reprise/runner/model_runner.h"

namespace reprise::runner {
namespace {

using parallel::Communicator;
using parallel::Operation;
using parallel::Patience;
using parallel::RankError;

// The first message of a command has a fixed size, which is enough for most batches of decodes. A
// second message has the rest.
constexpr size_t kFirstWords = 512;
constexpr size_t kHeaderWords = 2;

enum class Command : int32_t { step = 1, stop = 2 };

// FNV-1a over 64-bit words.
class Digest {
 public:
  void add(uint64_t word) noexcept { value_ = (value_ ^ word) * 0x100000001b3ULL; }
  void add_signed(int64_t word) noexcept { add(static_cast<uint64_t>(word)); }
  void add_descriptor(const cudagraph::BatchDescriptor& descriptor) noexcept {
    add(std::hash<cudagraph::BatchDescriptor>()(descriptor));
  }
  [[nodiscard]] uint64_t value() const noexcept { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325ULL;
};

// Words that must be equal on all ranks.
struct StepFacts {
  uint64_t step = 0;
  int64_t mode = 0;
  int64_t num_tokens = 0;
  int64_t num_reqs = 0;
  uint64_t digest = 0;
  int64_t stale_key = -1;

  // stale_key is not compared, because any rank may find that a key is stale.
  bool operator==(const StepFacts& other) const {
    return step == other.step && mode == other.mode && num_tokens == other.num_tokens &&
           num_reqs == other.num_reqs && digest == other.digest;
  }
};

std::string step_text(const StepFacts& facts) {
  const auto mode = static_cast<cudagraph::CudagraphRuntimeMode>(facts.mode);
  return fmt::format("step {} as {} tokens={} reqs={} digest {:016x}",
                     facts.step,
                     to_string(mode),
                     facts.num_tokens,
                     facts.num_reqs,
                     facts.digest);
}

// Appends the words of a batch, in the order in which BatchReader reads them.
void append(std::vector<int32_t>& words, const cudagraph::BatchFacts& facts) {
  const std::array numbers = {facts.num_tokens,
                              facts.num_reqs,
                              static_cast<int32_t>(facts.uniform),
                              facts.query_len,
                              static_cast<int32_t>(facts.ragged_drafts),
                              facts.num_logits,
                              static_cast<int32_t>(facts.cascade),
                              facts.common_prefix_len};
  words.insert(words.end(), numbers.begin(), numbers.end());
}

void append(std::vector<int32_t>& words, const scheduler::StepEntry& request) {
  const std::array numbers = {static_cast<int32_t>(request.token_ids.size()),
                              static_cast<int32_t>(request.block_ids.size()),
                              request.num_computed_tokens,
                              static_cast<int32_t>(request.samples),
                              request.num_drafts,
                              request.num_padding_tokens,
                              request.first_prompt_logit,
                              request.num_prompt_logits};
  words.insert(words.end(), numbers.begin(), numbers.end());
  words.insert(words.end(), request.token_ids.begin(), request.token_ids.end());
  for (const kv_cache::BlockId block : request.block_ids) {
    words.push_back(static_cast<int32_t>(block));
  }
}

/// Reads a batch from its words. The requests borrow from the words and from the reader.
class BatchReader {
 public:
  void read(std::span<const int32_t> words) {
    words_ = words;
    next_ = 0;
    retired_ = take(static_cast<size_t>(word()));
    facts_ = {.num_tokens = word(), .num_reqs = word()};
    facts_.uniform = word() != 0;
    facts_.query_len = word();
    facts_.ragged_drafts = word() != 0;
    facts_.num_logits = word();
    facts_.cascade = word() != 0;
    facts_.common_prefix_len = word();
    block_ids_.clear();
    // The blocks of all requests are in one vector, which must not grow while requests refer to it.
    block_ids_.reserve(words.size());
    requests_.clear();
    while (next_ < words_.size()) read_request();
  }
  [[nodiscard]] const cudagraph::BatchFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] std::span<const scheduler::StepEntry> requests() const noexcept {
    return requests_;
  }
  [[nodiscard]] std::span<const int32_t> retired() const noexcept { return retired_; }

 private:
  int32_t word() {
    if (next_ >= words_.size()) throw RankError("rank 0 sent a batch that is cut short");
    return words_[next_++];
  }
  std::span<const int32_t> take(size_t count) {
    if (count > words_.size() - next_) throw RankError("rank 0 sent a batch that is cut short");
    next_ += count;
    return words_.subspan(next_ - count, count);
  }
  void read_request() {
    const auto num_tokens = static_cast<size_t>(word());
    const auto num_blocks = static_cast<size_t>(word());
    scheduler::StepEntry request{.num_computed_tokens = word()};
    request.samples = word() != 0;
    request.num_drafts = word();
    request.num_padding_tokens = word();
    request.first_prompt_logit = word();
    request.num_prompt_logits = word();
    request.token_ids = take(num_tokens);
    const size_t first_block = block_ids_.size();
    for (const int32_t block : take(num_blocks)) {
      block_ids_.push_back(static_cast<kv_cache::BlockId>(block));
    }
    request.block_ids = std::span(block_ids_).subspan(first_block, num_blocks);
    requests_.push_back(request);
  }

  std::span<const int32_t> words_;
  size_t next_ = 0;
  std::span<const int32_t> retired_;
  cudagraph::BatchFacts facts_;
  std::vector<scheduler::StepEntry> requests_;
  std::vector<kv_cache::BlockId> block_ids_;
};

}  // namespace

void StepLeader::announce(std::span<const scheduler::StepEntry> requests,
                          const cudagraph::BatchFacts& facts,
                          std::span<const int32_t> retired) {
  words_.assign(kHeaderWords, 0);
  words_[0] = static_cast<int32_t>(Command::step);
  words_.push_back(static_cast<int32_t>(retired.size()));
  words_.insert(words_.end(), retired.begin(), retired.end());
  append(words_, facts);
  for (const scheduler::StepEntry& request : requests) append(words_, request);
  send();
}

void StepLeader::stop() {
  words_.assign(kHeaderWords, 0);
  words_[0] = static_cast<int32_t>(Command::stop);
  send();
}

void StepLeader::send() {
  const size_t size = words_.size();
  words_[1] = static_cast<int32_t>(size);
  words_.resize(std::max(size, kFirstWords));
  // Receivers wait for a command for any time, but once it is sent it must arrive soon.
  ranks_->broadcast(Operation::command, 0, words_.data(), kFirstWords * sizeof(int32_t));
  if (size <= kFirstWords) return;
  ranks_->broadcast(
      Operation::command, 0, words_.data() + kFirstWords, (size - kFirstWords) * sizeof(int32_t));
}

void run_announced_steps(Communicator& ranks, ModelRunner& runner) {
  std::vector<int32_t> words;
  BatchReader batch;
  for (;;) {
    words.resize(kFirstWords);
    ranks.broadcast(
        Operation::command, 0, words.data(), kFirstWords * sizeof(int32_t), Patience::unlimited);
    if (words[0] == static_cast<int32_t>(Command::stop)) return;
    const auto size = static_cast<size_t>(words[1]);
    if (size > kFirstWords) {
      words.resize(size);
      ranks.broadcast(Operation::command,
                      0,
                      words.data() + kFirstWords,
                      (size - kFirstWords) * sizeof(int32_t));
    }
    batch.read(std::span(words).first(size).subspan(kHeaderWords));
    runner.retire(batch.retired());
    try {
      (void)runner.execute(batch.requests(), batch.facts());
      // NOLINTNEXTLINE(bugprone-empty-catch): there is nothing else to do
    } catch (const StrictGraphsError&) {
      // Rank 0 throws the same error, and reports it to the requests.
    }
    runner.wait();
  }
}

uint64_t step_digest(const cudagraph::Decision& decision,
                     std::span<const scheduler::StepEntry> requests) noexcept {
  Digest digest;
  digest.add(static_cast<uint64_t>(decision.mode));
  digest.add_descriptor(decision.descriptor);
  for (const scheduler::StepEntry& request : requests) {
    digest.add_signed(request.num_computed_tokens);
    digest.add_signed(request.num_logits());
    digest.add_signed(request.num_padding_tokens);
    for (const int32_t token : request.token_ids) digest.add_signed(token);
    for (const kv_cache::BlockId block : request.block_ids) {
      digest.add_signed(static_cast<int32_t>(block));
    }
  }
  return digest.value();
}

int32_t agree_on_step(Communicator& ranks,
                      uint64_t step,
                      const cudagraph::Decision& decision,
                      std::span<const scheduler::StepEntry> requests,
                      int32_t stale_key) {
  const StepFacts mine{.step = step,
                       .mode = static_cast<int64_t>(decision.mode),
                       .num_tokens = decision.descriptor.num_tokens,
                       .num_reqs = static_cast<int64_t>(requests.size()),
                       .digest = step_digest(decision, requests),
                       .stale_key = stale_key};
  std::array<StepFacts, Communicator::kMaxRanks> all;
  ranks.all_gather(Operation::agreement, &mine, all.data(), sizeof mine);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const StepFacts& theirs = all[static_cast<size_t>(rank)];
    if (theirs == all[0]) continue;
    const std::string text = fmt::format("rank {} is about to run {}, but rank {} {}",
                                         ranks.world_rank(rank),
                                         step_text(theirs),
                                         ranks.world_rank(0),
                                         step_text(all[0]));
    ranks.fail(text);
    throw RankError(text);
  }
  for (const StepFacts& of_rank : std::span(all).first(static_cast<size_t>(ranks.size()))) {
    if (of_rank.stale_key >= 0) return static_cast<int32_t>(of_rank.stale_key);
  }
  return -1;
}

void agree_on_capture(Communicator& ranks,
                      const cudagraph::CudagraphDispatcher& dispatcher,
                      const cudagraph::CaptureReport& report) {
  Digest plan;
  for (const cudagraph::CaptureGroup& group : dispatcher.capture_plan()) {
    plan.add(static_cast<uint64_t>(group.mode));
    for (const cudagraph::BatchDescriptor& key : group.descriptors) plan.add_descriptor(key);
  }
  Digest captured;
  uint64_t num_captured = 0;
  for (const cudagraph::CaptureRecord& record : report.records) {
    if (!record.failure.empty()) continue;
    captured.add(static_cast<uint64_t>(record.mode));
    captured.add_descriptor(record.descriptor);
    ++num_captured;
  }
  const std::array mine = {plan.value(), captured.value(), num_captured};
  std::array<std::array<uint64_t, 3>, Communicator::kMaxRanks> all;
  ranks.all_gather(Operation::start_up, mine.data(), all.data(), sizeof mine, Patience::unlimited);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const auto& theirs = all[static_cast<size_t>(rank)];
    if (theirs == all[0]) continue;
    const std::string text =
        theirs[0] != all[0][0]
            ? fmt::format(
                  "rank {} has another capture plan than rank {} ({:016x}, {:016x}): start "
                  "all ranks with the same options and the same program",
                  ranks.world_rank(rank),
                  ranks.world_rank(0),
                  theirs[0],
                  all[0][0])
            : fmt::format(
                  "rank {} captured {} keys and rank {} {}: a capture failed on one of them",
                  ranks.world_rank(rank),
                  theirs[2],
                  ranks.world_rank(0),
                  all[0][2]);
    ranks.fail(text);
    throw RankError(text);
  }
}

}  // namespace reprise::runner
