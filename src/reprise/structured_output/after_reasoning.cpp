#include "reprise/structured_output/after_reasoning.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise::structured_output {
namespace {

class AfterReasoning final : public TokenConstraint {
 public:
  AfterReasoning(const ReasoningDelimiters& delimiters, std::unique_ptr<TokenConstraint> rest)
      : delimiters_(delimiters),
        rest_(std::move(rest)),
        state_(delimiters.begins_inside ? State::inside : State::first) {}

  std::span<const uint32_t> allowed_tokens() override {
    if (state_ == State::inside) return {};
    const std::span<const uint32_t> allowed = rest_->allowed_tokens();
    if (state_ == State::behind || allowed.empty()) return allowed;
    first_.assign(allowed.begin(), allowed.end());
    const auto word = static_cast<size_t>(delimiters_.start) / 32;
    first_.resize(std::max(first_.size(), word + 1));
    first_[word] |= 1U << (static_cast<uint32_t>(delimiters_.start) % 32);
    return first_;
  }

  bool accept(int32_t token_id) override {
    if (state_ == State::first && token_id == delimiters_.start) {
      state_ = State::inside;
      return true;
    }
    if (state_ == State::inside) {
      if (token_id == delimiters_.end) state_ = State::behind;
      return true;
    }
    state_ = State::behind;
    return rest_->accept(token_id);
  }

  bool is_complete() override { return state_ == State::behind && rest_->is_complete(); }

 private:
  enum class State { first, inside, behind };

  ReasoningDelimiters delimiters_;
  std::unique_ptr<TokenConstraint> rest_;
  State state_;
  std::vector<uint32_t> first_;  // mask of the first token
};

}  // namespace

std::unique_ptr<TokenConstraint> after_reasoning(const ReasoningDelimiters& delimiters,
                                                 std::unique_ptr<TokenConstraint> rest) {
  return std::make_unique<AfterReasoning>(delimiters, std::move(rest));
}

}  // namespace reprise::structured_output
