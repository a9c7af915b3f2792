#include "reprise/structured_output/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

constexpr size_t kMaxStates = 20'000;
constexpr size_t kMaxTransitions = size_t{1} << 21;  // 4 bytes each
constexpr uint32_t kFar = std::numeric_limits<uint32_t>::max();

}  // namespace

Automaton Automaton::of(RegexTerms& terms, TermId term) {
  terms.fix_classes();
  Automaton made;
  made.num_classes_ = terms.num_classes() - 1;
  const size_t end_class = made.num_classes_;
  made.ranges_ = terms.class_ranges();
  made.class_sizes_.resize(made.num_classes_);
  for (size_t i = 0; i < made.ranges_.size(); ++i) {
    const uint32_t next =
        i + 1 < made.ranges_.size() ? made.ranges_[i + 1].first : CodePoints::kLast + 1;
    made.class_sizes_[made.ranges_[i].second] += next - made.ranges_[i].first;
  }
  for (uint32_t c = 0; c < made.ascii_.size(); ++c) made.ascii_[c] = made.class_beyond_ascii(c);

  std::vector<TermId> states{TermId::nothing, term};
  std::unordered_map<TermId, uint32_t> numbers{{TermId::nothing, kDead}};
  if (term != TermId::nothing) numbers.emplace(term, 1);
  std::vector<bool> accepts{false};
  made.next_.assign(made.num_classes_, kDead);
  for (size_t state = 1; state < states.size(); ++state) {
    terms.count_work(made.num_classes_);
    accepts.push_back(terms.matches_empty(terms.derivative(states[state], end_class)));
    for (size_t c = 0; c < made.num_classes_; ++c) {
      const TermId next = terms.derivative(states[state], c);
      const auto [found, is_new] = numbers.try_emplace(next, static_cast<uint32_t>(states.size()));
      if (is_new) states.push_back(next);
      made.next_.push_back(found->second);
    }
    if (states.size() > kMaxStates || states.size() * made.num_classes_ > kMaxTransitions) {
      throw InvalidArgument(
          fmt::format("the pattern is too complex: it needs more than {} states; use fewer counted "
                      "repetitions, smaller counts, or a smaller maxLength beside the pattern",
                      std::min(kMaxStates, kMaxTransitions / made.num_classes_)));
    }
  }
  made.start_ = 1;
  made.remove_dead_ends(accepts);
  made.find_longest();
  return made;
}

void Automaton::remove_dead_ends(const std::vector<bool>& accepts) {
  const size_t num_states = accepts.size();
  std::vector<std::vector<uint32_t>> before(num_states);
  for (size_t state = 1; state < num_states; ++state) {
    for (size_t c = 0; c < num_classes_; ++c) {
      const uint32_t next = next_[state * num_classes_ + c];
      if (next != kDead && (before[next].empty() || before[next].back() != state)) {
        before[next].push_back(static_cast<uint32_t>(state));
      }
    }
  }
  rest_.assign(num_states, kFar);
  std::vector<uint32_t> queue;
  for (size_t state = 1; state < num_states; ++state) {
    if (!accepts[state]) continue;
    rest_[state] = 0;
    queue.push_back(static_cast<uint32_t>(state));
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const uint32_t previous : before[queue[i]]) {
      if (rest_[previous] != kFar) continue;
      rest_[previous] = rest_[queue[i]] + 1;
      queue.push_back(previous);
    }
  }
  goes_on_.assign(num_states, false);
  is_smooth_ = true;
  for (size_t state = 0; state < num_states; ++state) {
    bool has_near = false;
    for (size_t c = 0; c < num_classes_; ++c) {
      uint32_t& next = next_[state * num_classes_ + c];
      if (rest_[state] == kFar || rest_[next] == kFar) next = kDead;
      if (next == kDead) continue;
      goes_on_[state] = true;
      has_near = has_near || rest_[next] <= rest_[state];
    }
    if (rest_[state] != kFar && !has_near) is_smooth_ = false;
  }
  if (rest_[start_] == kFar) start_ = kDead;
  groups_.resize(num_states);
  for (size_t state = 0; state < num_states; ++state) groups_[state] = static_cast<uint32_t>(state);
}

void Automaton::find_longest() {
  // Visits the states of an acyclic automaton after all their successors.
  if (start_ == kDead) return;
  std::vector<uint8_t> marks(num_states());
  std::vector<uint32_t> longest(num_states());
  std::vector<std::pair<uint32_t, size_t>> stack{{start_, 0}};
  marks[start_] = 1;
  while (!stack.empty()) {
    auto& [state, c] = stack.back();
    if (c == num_classes_) {
      marks[state] = 2;
      const uint32_t length = longest[state] + 1;
      stack.pop_back();
      if (!stack.empty()) {
        uint32_t& before = longest[stack.back().first];
        before = std::max(before, length);
      }
      continue;
    }
    const uint32_t next = next_[state * num_classes_ + c++];
    if (next == kDead) continue;
    if (marks[next] == 1) return;  // a circle
    if (marks[next] == 2) {
      longest[state] = std::max(longest[state], longest[next] + 1);
    } else {
      marks[next] = 1;
      stack.emplace_back(next, 0);
    }
  }
  longest_ = longest[start_];
}

std::optional<size_t> Automaton::num_texts(size_t most) const {
  if (start_ == kDead) return 0;
  if (!longest_ || *longest_ > most) return {};
  std::map<uint32_t, uint64_t> ways{{start_, 1}};
  uint64_t sum = 0;
  while (!ways.empty()) {
    std::map<uint32_t, uint64_t> next;
    for (const auto& [state, number] : ways) {
      if (accepts(state)) sum += number;
      for (size_t c = 0; c < num_classes_; ++c) {
        const uint32_t to = next_[state * num_classes_ + c];
        if (to == kDead) continue;
        next[to] += number * class_sizes_[c];
        if (next[to] > most) return {};
      }
    }
    if (sum > most) return {};
    ways = std::move(next);
  }
  return sum;
}

uint16_t Automaton::class_beyond_ascii(uint32_t code_point) const {
  const auto after = std::upper_bound(
      ranges_.begin(), ranges_.end(), code_point, [](uint32_t value, const auto& range) {
        return value < range.first;
      });
  return std::prev(after)->second;
}

bool Automaton::can_step(uint32_t state, uint32_t first, uint32_t last, uint32_t rest) const {
  auto range = std::prev(
      std::upper_bound(ranges_.begin(), ranges_.end(), first, [](uint32_t value, const auto& one) {
        return value < one.first;
      }));
  for (; range != ranges_.end() && range->first <= last; ++range) {
    const uint32_t next = next_[state * num_classes_ + range->second];
    if (next != kDead && rest_[next] <= rest) return true;
  }
  return false;
}

bool Automaton::matches(const std::vector<uint32_t>& code_points) const {
  uint32_t state = start_;
  for (const uint32_t code_point : code_points) {
    if (state == kDead) return false;
    state = step(state, code_point);
  }
  return state != kDead && accepts(state);
}

void Automaton::group_states(size_t num_characters) {
  constexpr size_t kFew = 64;
  if (num_states() <= kFew) return;
  // Moore's refinement of a partition, ended early: round i separates states that some text of i
  // characters separates.
  for (size_t state = 0; state < num_states(); ++state) {
    // A counter beside a smooth automaton needs the rest, so states with different rests are
    // separated.
    groups_[state] =
        is_smooth_ ? rest_[state] : std::min(rest_[state], 1U) + (rest_[state] == kFar);
  }
  size_t num_groups = 0;
  std::vector<uint32_t> refined(num_states());
  for (size_t round = 0; round < num_characters; ++round) {
    std::map<std::vector<uint32_t>, uint32_t> numbers;
    std::vector<uint32_t> signature(num_classes_ + 1);
    for (size_t state = 0; state < num_states(); ++state) {
      signature[0] = groups_[state];
      for (size_t c = 0; c < num_classes_; ++c) {
        signature[c + 1] = groups_[next_[state * num_classes_ + c]];
      }
      refined[state] =
          numbers.try_emplace(signature, static_cast<uint32_t>(numbers.size())).first->second;
    }
    groups_.swap(refined);
    if (numbers.size() == num_groups) return;
    num_groups = numbers.size();
  }
}

}  // namespace reprise::structured_output
