#include "reprise/structured_output/regex_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_reader.h"

namespace reprise::structured_output {
namespace {

/// Makes terms from a parsed pattern. A term is made when the terms after it are known, because
/// look-ahead and `$` depend on them.
class TermWriter {
 public:
  TermWriter(RegexTerms& terms, Reading reading)
      : terms_(&terms), reading_(reading), any_text_(terms.joined(star(any()), TermId::text_end)) {}

  TermId write(const RegexPart& pattern, Anchoring anchoring) {
    if (anchoring == Anchoring::whole_text) return write_before(pattern, TermId::text_end);
    const TermId at_start = term(pattern, any_text_, true);
    const TermId later = term(pattern, any_text_, false);
    return terms_->any_of({at_start, terms_->joined(terms_->repeated(any(), 1, {}), later)});
  }

  TermId write_before(const RegexPart& pattern, TermId then) {
    pattern_end_ = then;
    return term(pattern, then, true);
  }

  TermId lengths(int64_t least, std::optional<int64_t> most) {
    return terms_->joined(terms_->repeated(any(), least, most), TermId::text_end);
  }

 private:
  TermId any() { return terms_->set(CodePoints{{0, CodePoints::kLast}}); }
  TermId star(TermId term) { return terms_->repeated(term, 0, {}); }

  /// `is_at_start`: this part is at the start of the text.
  TermId term(const RegexPart& part, TermId then, bool is_at_start) {
    using Kind = RegexPart::Kind;
    switch (part.kind) {
      case Kind::set:
        return terms_->joined(set(part), then);
      case Kind::sequence:
        return sequence(part, then, is_at_start);
      case Kind::alternatives: {
        std::vector<TermId> ways;
        for (const RegexPart& way : part.parts) ways.push_back(term(way, then, is_at_start));
        return terms_->any_of(std::move(ways));
      }
      case Kind::repetition:
        return repetition(part, then, is_at_start);
      case Kind::look_ahead:
        return look_ahead(part, then, is_at_start);
      case Kind::text_start:
        return is_at_start ? then : TermId::nothing;
      case Kind::text_end:
        return text_end(then);
    }
    return TermId::nothing;
  }

  TermId text_end(TermId then) {
    if (then == pattern_end_ && then != TermId::text_end) return then;
    const bool is_simple = then == any_text_ || then == TermId::text_end;
    if (is_simple && reading_ == Reading::narrow) return TermId::text_end;
    TermId end = terms_->joined(TermId::text_end, TermId::everything);
    if (reading_ == Reading::wide) {
      // In Python, `$` also matches before a line end that is the last character.
      end = terms_->any_of({end, terms_->joined(terms_->set(CodePoints{{'\n', '\n'}}), end)});
    }
    return terms_->all_of({then, end});
  }

  TermId set(const RegexPart& part) {
    return terms_->set(reading_ == Reading::wide ? part.set.outer : part.set.inner);
  }

  TermId sequence(const RegexPart& part, TermId then, bool is_at_start) {
    std::vector<bool> starts;
    for (const RegexPart& one : part.parts) {
      starts.push_back(is_at_start);
      is_at_start = is_at_start && one.is_zero_width();
    }
    for (size_t i = part.parts.size(); i-- > 0;) then = term(part.parts[i], then, starts[i]);
    return then;
  }

  TermId look_ahead(const RegexPart& part, TermId then, bool is_at_start) {
    const Reading before = reading_;
    if (part.is_negative) {
      reading_ = before == Reading::wide ? Reading::narrow : Reading::wide;
    }
    const TermId ahead = term(part.parts[0], TermId::everything, is_at_start);
    reading_ = before;
    return terms_->all_of({then, part.is_negative ? terms_->complement(ahead) : ahead});
  }

  TermId repetition(const RegexPart& part, TermId then, bool is_at_start) {
    const RegexPart& body = part.parts[0];
    if (!body.looks_around) {
      const TermId once = term(body, TermId::empty_text, is_at_start);
      return terms_->joined(terms_->repeated(once, part.least, part.most), then);
    }
    if (!part.most) {
      const TermId again = terms_->recursive(terms_->matches_empty(then));
      terms_->define(again, terms_->any_of({then, term(body, again, false)}));
      then = again;
    } else {
      const TermId behind = then;
      for (int64_t i = part.least; i < *part.most; ++i) {
        then = terms_->any_of(
            {behind, term(body, then, is_at_start && i + 1 == *part.most && part.least == 0)});
      }
    }
    for (int64_t i = 0; i < part.least; ++i) {
      then = term(body, then, is_at_start && i + 1 == part.least);
    }
    return then;
  }

  RegexTerms* terms_;
  Reading reading_;
  TermId any_text_;                        // up to and with the end
  TermId pattern_end_ = TermId::text_end;  // what follows the whole pattern
};

}  // namespace

TermId regex_term(RegexTerms& terms,
                  std::string_view pattern,
                  Anchoring anchoring,
                  Reading reading) {
  const RegexPart read = read_regex(pattern);
  return TermWriter(terms, reading).write(read, anchoring);
}

TermId regex_term_before(RegexTerms& terms, std::string_view pattern, TermId then) {
  return TermWriter(terms, Reading::narrow).write_before(read_regex(pattern), then);
}

TermId length_term(RegexTerms& terms, int64_t least, std::optional<int64_t> most) {
  return TermWriter(terms, Reading::narrow).lengths(least, most);
}

}  // namespace reprise::structured_output
