#include "reprise/structured_output/answer_constraint.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "reprise/structured_output/answer_machine.h"
#include "reprise/structured_output/regex_dialect.h"

namespace reprise::structured_output {
namespace {

using Place = AnswerMachine::Way::Place;

/// A spec keeps this many bytes of masks.
constexpr size_t kMaxMaskBytes = size_t{48} << 20;
constexpr size_t kManyFrames = 4096;
constexpr size_t kMaxMadeAhead = 32;

/// The masks that the answers of one spec share.
struct SpecMasks {
  SpecMasks(std::shared_ptr<const AnswerProgram> of, std::shared_ptr<SharedMasks> with)
      : program(std::move(of)), shared(std::move(with)), own(kMaxMaskBytes) {}

  std::shared_ptr<const LeafMask> find(const TextLeaf& leaf, const TextState& at) {
    const bool is_usual = leaf.automaton == shared->any_text;
    return (is_usual ? shared->of_any_text : own).find(shared->tokens, leaf, at);
  }

  std::shared_ptr<const AnswerProgram> program;
  std::shared_ptr<SharedMasks> shared;
  LeafMaskCache own;
};

class ProgramConstraint final : public TokenConstraint {
 public:
  explicit ProgramConstraint(std::shared_ptr<SpecMasks> spec)
      : spec_(std::move(spec)),
        machine_(spec_->program),
        ways_(machine_.start()),
        mask_(tokens().num_words()) {}

  std::span<const uint32_t> allowed_tokens() override {
    fill();
    return mask_;
  }

  bool accept(int32_t token_id) override {
    if (has_ended_) return false;
    const VocabularyBytes& vocabulary = tokens().vocabulary();
    if (token_id < 0 || static_cast<size_t>(token_id) >= vocabulary.tokens.size()) return false;
    if (is_end_token(token_id)) {
      has_ended_ = machine_.can_end(ways_);
      is_filled_ = is_filled_ && !has_ended_;
      return has_ended_;
    }
    const std::string& bytes = vocabulary.tokens[static_cast<size_t>(token_id)];
    if (bytes.empty()) return false;
    const AnswerMachine::Mark before = machine_.mark();
    AnswerMachine::Ways ways = ways_;
    for (const char byte : bytes) {
      if (!machine_.take(ways, static_cast<uint8_t>(byte), next_)) {
        machine_.undo(before);
        return false;
      }
      ways.swap(next_);
    }
    ways_.swap(ways);
    if (machine_.mark().num_frames > max_frames_) {
      machine_.compact(ways_);
      max_frames_ = 2 * machine_.mark().num_frames + kManyFrames;
    }
    is_filled_ = false;
    return true;
  }

  bool is_complete() override {
    if (has_ended_) return true;
    fill();
    return is_complete_;
  }

 private:
  const LeafMasks& tokens() const { return spec_->shared->tokens; }

  [[nodiscard]] bool is_end_token(int32_t token_id) const {
    const std::vector<int32_t>& ends = tokens().vocabulary().end_token_ids;
    return std::find(ends.begin(), ends.end(), token_id) != ends.end();
  }

  void allow(int32_t token) {
    const auto id = static_cast<uint32_t>(token);
    mask_[id / 32] |= 1U << (id % 32U);
  }

  void fill() {
    if (is_filled_) return;
    is_filled_ = true;
    std::fill(mask_.begin(), mask_.end(), 0U);
    if (has_ended_) return;
    AnswerMachine::Ways others;
    for (const AnswerMachine::Way& way : ways_) {
      if (way.place == Place::text && is_at_usual_place(way.text)) {
        fill_text(way);
      } else {
        others.push_back(way);
      }
    }
    machine_.walk(tokens().tokens(), others, [this](int32_t token) {
      tokens().tokens().for_each_with(token, [this](int32_t same) { allow(same); });
    });
    // End tokens have no meaning as texts, so masks leave them out.
    for (const int32_t id : tokens().vocabulary().end_token_ids) {
      mask_[static_cast<size_t>(id) / 32] &= ~(1U << (static_cast<uint32_t>(id) % 32U));
    }
    const bool is_empty =
        std::all_of(mask_.begin(), mask_.end(), [](uint32_t word) { return word == 0; });
    const bool can_end = machine_.can_end(ways_);
    is_complete_ = is_empty && can_end;
    if (!can_end) return;
    for (const int32_t id : tokens().vocabulary().end_token_ids) allow(id);
  }

  void fill_text(const AnswerMachine::Way& way) {
    const TextLeaf& leaf = machine_.program().texts[static_cast<size_t>(way.index)];
    const std::shared_ptr<const LeafMask> mask = spec_->find(leaf, way.text);
    add_inside(leaf, *mask, way.text.length);
    const std::vector<std::string_view> used = used_rests(way);
    const AnswerMachine::Mark before = machine_.mark();
    AnswerMachine::Ways after;
    machine_.close_text(way, after);
    const auto take_group = [&](int32_t group) {
      take_exits(leaf, way, mask->exits[static_cast<size_t>(group)], used);
    };
    if (!after.empty()) {
      for (size_t i = 0; i < mask->suffixes.size(); ++i) {
        if (mask->suffixes[i].empty()) take_group(static_cast<int32_t>(i));
      }
      machine_.walk(mask->suffix_tree, after, take_group);
    }
    machine_.undo(before);
  }

  [[nodiscard]] std::vector<std::string_view> used_rests(const AnswerMachine::Way& way) const {
    if (!machine_.keeps_texts_apart(way)) return {};
    return machine_.used_rests(way);
  }

  void add_inside(const TextLeaf& leaf, const LeafMask& mask, uint32_t length) {
    if (!leaf.most) {
      for (size_t i = 0; i < mask_.size(); ++i) mask_[i] |= mask.inside[i];
      return;
    }
    const auto left = static_cast<uint32_t>(std::max<int64_t>(*leaf.most - length, 0));
    const auto first_too_long = std::upper_bound(
        mask.needs.begin(), mask.needs.end(), left, [](uint32_t value, const LeafMask::Need& need) {
          return value < need.num_characters;
        });
    const auto num_fitting = first_too_long - mask.needs.begin();
    if (num_fitting < mask.needs.end() - first_too_long) {
      for (auto need = mask.needs.begin(); need != first_too_long; ++need) allow(need->token);
      return;
    }
    scratch_ = mask.inside;
    for (auto need = first_too_long; need != mask.needs.end(); ++need) {
      const auto id = static_cast<uint32_t>(need->token);
      scratch_[id / 32] &= ~(1U << (id % 32U));
    }
    for (size_t i = 0; i < mask_.size(); ++i) mask_[i] |= scratch_[i];
  }

  void take_exits(const TextLeaf& leaf,
                  const AnswerMachine::Way& way,
                  const std::vector<LeafMask::Exit>& exits,
                  const std::vector<std::string_view>& used) {
    const int64_t most = leaf.most.value_or(std::numeric_limits<int64_t>::max());
    for (const LeafMask::Exit& exit : exits) {
      const int64_t length = int64_t{way.text.length} + exit.num_characters;
      if (length < leaf.least || length > most) continue;
      // The machine's decision depended on the answer's text so far, which lacks the characters of
      // this token.
      if (machine_.has_looked() && exit.num_bytes > 0) continue;
      if (!used.empty() && is_used(exit, used)) continue;
      allow(exit.token);
    }
  }

  [[nodiscard]] bool is_used(const LeafMask::Exit& exit,
                             const std::vector<std::string_view>& used) const {
    const std::string_view token = tokens().vocabulary().tokens[static_cast<size_t>(exit.token)];
    const std::string_view written = token.substr(0, exit.num_bytes + 1);  // with the quote
    return std::find(used.begin(), used.end(), written) != used.end();
  }

  std::shared_ptr<SpecMasks> spec_;
  AnswerMachine machine_;
  AnswerMachine::Ways ways_;
  AnswerMachine::Ways next_;
  std::vector<uint32_t> mask_;
  std::vector<uint32_t> scratch_;
  size_t max_frames_ = kManyFrames;
  bool is_filled_ = false;
  bool is_complete_ = false;
  bool has_ended_ = false;
};

class CompiledProgram final : public CompiledSpec {
 public:
  CompiledProgram(std::shared_ptr<const AnswerProgram> program, std::shared_ptr<SharedMasks> shared)
      : spec_(std::make_shared<SpecMasks>(std::move(program), std::move(shared))) {
    // The first masks of texts are needed by all answers, so they are made before an answer waits
    // for them.
    size_t num_made = 0;
    for (const TextLeaf& leaf : spec_->program->texts) {
      if (++num_made > kMaxMadeAhead) break;
      (void)spec_->find(leaf, {.state = leaf.automaton->start()});
    }
  }

  std::unique_ptr<TokenConstraint> start() const override {
    auto constraint = std::make_unique<ProgramConstraint>(spec_);
    constraint->turn.first_cost_of_spec = first_cost_;
    return constraint;
  }

  size_t memory_bytes() const override {
    return spec_->program->memory_bytes() + spec_->own.memory_bytes();
  }

 private:
  std::shared_ptr<SpecMasks> spec_;
  std::shared_ptr<std::atomic<int64_t>> first_cost_ = std::make_shared<std::atomic<int64_t>>(-1);
};

std::shared_ptr<const Automaton> automaton_of_any_text() {
  RegexTerms terms;
  const TermId term = length_term(terms, 0, {});
  return std::make_shared<const Automaton>(Automaton::of(terms, term));
}

}  // namespace

SharedMasks::SharedMasks(VocabularyBytes vocabulary)
    : tokens(std::move(vocabulary)),
      any_text(automaton_of_any_text()),
      of_any_text(std::numeric_limits<size_t>::max()) {}

std::shared_ptr<const CompiledSpec> compiled_program(std::shared_ptr<const AnswerProgram> program,
                                                     std::shared_ptr<SharedMasks> shared) {
  return std::make_shared<CompiledProgram>(std::move(program), std::move(shared));
}

}  // namespace reprise::structured_output
