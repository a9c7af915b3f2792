#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "reprise/structured_output/code_points.h"
#include "reprise/structured_output/work_limit.h"

namespace reprise::structured_output {

enum class TermId : uint32_t {
  nothing = 0,     // matches no text
  empty_text = 1,  // matches the empty text
  everything = 2,  // matches every text
  text_end = 3,    // matches the mark that comes once after each text, for `$` inside look-ahead
};

/// Regular languages as terms with intersection and complement. Equal terms have one id, and simple
/// equalities are applied (a|a = a), so a term has few derivatives: the states of an automaton. The
/// derivative of a language by a character holds the rests of its texts that begin with the
/// character. Source: Brzozowski, Derivatives of regular expressions, 1964; Owens, Reppy, Turon,
/// Regular-expression derivatives re-examined, 2009.
///
/// First all terms are made, then fix_classes() divides the characters into classes that no set
/// tells apart, then derivatives are taken. One thread uses an object. The functions that make
/// terms throw InvalidArgument when there are too many.
class RegexTerms {
 public:
  /// `limit` must outlive the object; null: only the number of terms is limited.
  explicit RegexTerms(WorkLimit* limit = nullptr);

  [[nodiscard]] TermId set(const CodePoints& characters);
  [[nodiscard]] TermId joined(TermId first, TermId then);
  [[nodiscard]] TermId any_of(std::vector<TermId> terms);
  [[nodiscard]] TermId all_of(std::vector<TermId> terms);
  [[nodiscard]] TermId complement(TermId term);
  [[nodiscard]] TermId repeated(TermId term, int64_t least, std::optional<int64_t> most);
  /// A placeholder for a term that refers to itself. define() gives its meaning, which must match a
  /// character before it reaches the placeholder again.
  [[nodiscard]] TermId recursive(bool matches_empty);
  void define(TermId name, TermId meaning);

  [[nodiscard]] bool matches_empty(TermId term) const { return at(term).matches_empty; }
  /// The set and the bounds when `term` repeats one set and then ends the text.
  struct RepeatedSet {
    TermId set;
    int64_t least;
    std::optional<int64_t> most;
  };
  [[nodiscard]] std::optional<RepeatedSet> as_repeated_set(TermId term) const;

  void fix_classes();
  /// Classes of characters; the last one is the end mark.
  [[nodiscard]] size_t num_classes() const { return num_classes_; }
  /// The first code points of ranges with their classes, sorted. Surrogates have class 0, which is
  /// in no set.
  [[nodiscard]] const std::vector<std::pair<uint32_t, uint16_t>>& class_ranges() const {
    return class_ranges_;
  }
  [[nodiscard]] TermId derivative(TermId term, size_t character_class);

  /// \throws WorkLimitReached
  void count_work(size_t num_steps) {
    if (limit_ != nullptr) limit_->count(num_steps);
  }

 private:
  enum class Kind : uint8_t {
    nothing,
    empty_text,
    everything,
    text_end,
    set,
    joined,
    any_of,
    all_of,
    complement,
    repeated,
    recursive
  };
  struct Term {
    Kind kind;
    bool matches_empty;
    int64_t least = 0;  // for a repetition its lower limit; for a set its number
    int64_t most = -1;  // -1: no limit
    std::vector<TermId> parts;
    bool operator==(const Term&) const = default;
  };
  struct Hash {
    size_t operator()(const Term& term) const;
  };

  [[nodiscard]] const Term& at(TermId id) const { return terms_[static_cast<size_t>(id)]; }
  TermId make(Term term);
  TermId compute_derivative(TermId id, size_t character_class);
  TermId derivative_of_joined(TermId id, size_t character_class);

  WorkLimit* limit_;
  std::vector<Term> terms_;
  std::unordered_map<Term, TermId, Hash> ids_;
  std::vector<CodePoints> sets_;
  std::vector<std::vector<bool>> is_in_set_;  // by set and class
  std::vector<TermId> meanings_;              // of recursive terms
  std::vector<std::pair<uint32_t, uint16_t>> class_ranges_;
  size_t num_classes_ = 0;
  std::unordered_map<uint64_t, TermId> derivatives_;
};

}  // namespace reprise::structured_output
