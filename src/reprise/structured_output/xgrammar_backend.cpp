#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/ebnf_backend.h"
#include "reprise/structured_output/work_limit.h"

namespace reprise::structured_output {
namespace {

/// Steps of the matcher (WorkLimit) for one mask or token. A mask that is made by trying the whole
/// vocabulary takes about 4 steps per token; ambiguous patterns take some more. The other steps
/// allow a few hundred states with a small vocabulary.
constexpr int64_t kStepsPerVocabularyToken = 64;
constexpr int64_t kStepsOfSmallVocabulary = int64_t{1} << 20;
/// An answer may save steps that it did not need, up to this many calls; each token earns a part of
/// a call.
constexpr int64_t kMaxSavedCalls = 8;
constexpr int64_t kTokensThatEarnACall = 4;
/// The limit of the matcher's states, of about 32 bytes each: a base, and some for each byte of the
/// answer.
constexpr size_t kStates = size_t{1} << 16;
constexpr size_t kStatesPerByte = 48;

class Constraint final : public TokenConstraint {
 public:
  Constraint(xgrammar::CompiledGrammar grammar, bool has_end_tokens)
      : grammar_(std::move(grammar)),
        steps_of_call_(kStepsOfSmallVocabulary +
                       kStepsPerVocabularyToken * grammar_.GetTokenizerInfo().GetVocabSize()),
        steps_saved_(kMaxSavedCalls * steps_of_call_),
        mask_(static_cast<size_t>(
            xgrammar::GetBitmaskSize(grammar_.GetTokenizerInfo().GetVocabSize()))),
        has_end_tokens_(has_end_tokens) {}

  std::span<const uint32_t> allowed_tokens() override {
    within_limits([this] { fill(); });
    return mask_;
  }

  bool accept(int32_t token_id) override {
    bool accepts = false;
    within_limits([&] { accepts = matcher().AcceptToken(token_id); });
    if (!accepts) return false;
    is_filled_ = false;
    const auto& tokens = grammar_.GetTokenizerInfo().GetDecodedVocab();
    num_bytes_ += tokens[static_cast<size_t>(token_id)].size();
    steps_saved_ = std::min(steps_saved_ + steps_of_call_ / kTokensThatEarnACall,
                            kMaxSavedCalls * steps_of_call_);
    return true;
  }

  bool is_complete() override {
    if (is_terminated()) return true;
    within_limits([this] { fill(); });
    return is_complete_;
  }

 private:
  /// Made at the first use instead of in the constructor: beginning to match costs work too, which
  /// the thread that starts an answer must not do.
  xgrammar::GrammarMatcher& matcher() {
    if (!matcher_) matcher_.emplace(grammar_, std::nullopt, !has_end_tokens_);
    return *matcher_;
  }

  template <class Call>
  void within_limits(const Call& call) {
    if (is_broken_) throw InvalidArgument("this answer cannot go on: it has reached its limits");
    WorkLimit limit{.num_steps_left = std::min(steps_of_call_, steps_saved_),
                    .max_states = kStates + kStatesPerByte * num_bytes_};
    const int64_t given = limit.num_steps_left;
    try {
      const WorkLimitScope scope(limit);
      call();
    } catch (const WorkLimitReached& reached) {
      is_broken_ = true;
      throw InvalidArgument(too_expensive(reached.which(), limit.max_states));
    }
    steps_saved_ -= given - limit.num_steps_left;
  }

  [[nodiscard]] std::string too_expensive(WorkLimitReached::Which which, size_t max_states) const {
    if (which == WorkLimitReached::Which::states) {
      return fmt::format(
          "structured output: the grammar or pattern is too ambiguous. Matching {} bytes of the "
          "answer needs more than {} states; use fewer repetitions that can match the same text",
          num_bytes_,
          max_states);
    }
    return fmt::format(
        "structured output: the grammar or pattern is too expensive. The next token of the answer "
        "({} bytes so far) needs more work than the budget of {} steps per token and {} steps "
        "saved; use fewer repetitions that can match the same text, or shorter ones",
        num_bytes_,
        steps_of_call_,
        steps_saved_);
  }

  [[nodiscard]] bool is_terminated() const {
    return has_end_tokens_ && matcher_ && matcher_->IsTerminated();
  }

  void fill() {
    if (is_filled_) return;
    is_filled_ = true;
    if (is_terminated()) {
      std::fill(mask_.begin(), mask_.end(), 0U);
      is_complete_ = true;
      return;
    }
    auto num_words = static_cast<int64_t>(mask_.size());
    DLTensor view{.data = mask_.data(),
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = xgrammar::GetBitmaskDLType(),
                  .shape = &num_words,
                  .strides = nullptr,
                  .byte_offset = 0};
    matcher().FillNextTokenBitmask(&view);
    is_complete_ = can_only_end();
  }

  [[nodiscard]] bool can_only_end() const {
    std::vector<int32_t> ends = matcher_->GetStopTokenIds();
    const bool can_end = has_end_tokens_ ? contains(mask_, ends.front()) : matcher_->IsTerminated();
    if (!can_end) return false;
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    int num_allowed = 0;
    for (const uint32_t word : mask_) num_allowed += __builtin_popcount(word);
    for (const int32_t id : ends) num_allowed -= contains(mask_, id) ? 1 : 0;
    return num_allowed == 0;
  }

  xgrammar::CompiledGrammar grammar_;
  std::optional<xgrammar::GrammarMatcher> matcher_;
  int64_t steps_of_call_;
  int64_t steps_saved_;
  size_t num_bytes_ = 0;  // of the accepted tokens
  std::vector<uint32_t> mask_;
  bool has_end_tokens_;
  bool is_filled_ = false;
  bool is_complete_ = false;
  bool is_broken_ = false;  // the matcher was stopped in the middle of its work
};

class Compiled final : public CompiledSpec {
 public:
  explicit Compiled(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}

  std::unique_ptr<TokenConstraint> start() const override {
    auto constraint = std::make_unique<Constraint>(
        grammar_, !grammar_.GetTokenizerInfo().GetStopTokenIds().empty());
    constraint->turn.first_cost_of_spec = first_cost_;
    return constraint;
  }
  size_t memory_bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
  std::shared_ptr<std::atomic<int64_t>> first_cost_ = std::make_shared<std::atomic<int64_t>>(-1);
};

class XgrammarBackend final : public GrammarBackend {
 public:
  explicit XgrammarBackend(const VocabularyBytes& vocabulary)
      : tokens_(vocabulary.tokens,
                xgrammar::VocabType::RAW,
                static_cast<int>(vocabulary.tokens.size()),
                vocabulary.end_token_ids) {}

  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec, WorkLimit& limit) override {
    const WorkLimitScope scope(limit);
    try {
      // One compiler per spec and no cache: GrammarCompiler decides which specs are kept.
      xgrammar::GrammarCompiler compiler(tokens_, 1, false);
      return std::make_shared<Compiled>(compiler.CompileGrammar(spec.text));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const WorkLimitReached&) {
      throw;
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("{}: {}", to_string(spec.kind), error.what()));
    }
  }

 private:
  xgrammar::TokenizerInfo tokens_;
};

}  // namespace

std::unique_ptr<GrammarBackend> create_ebnf_backend(const VocabularyBytes& vocabulary) {
  return std::make_unique<XgrammarBackend>(vocabulary);
}

}  // namespace reprise::structured_output
