#include "reprise/base/error.h"
#include "reprise/structured_output/automaton.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_dialect.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void pattern(std::string_view input) {
  using namespace structured_output;
  for (const Anchoring anchoring : {Anchoring::whole_text, Anchoring::anywhere}) {
    try {
      structured_output::WorkLimit limit{.num_steps_left = 1 << 16};
      RegexTerms terms(&limit);
      const TermId term = regex_term(terms, input, anchoring, Reading::narrow);
      const Automaton automaton = Automaton::of(terms, term);
      if (automaton.start() == Automaton::kDead || !automaton.longest()) continue;
      require(*automaton.longest() >= automaton.rest(automaton.start()),
              "the longest text is not shorter than the shortest");
    } catch (const InvalidArgument&) {
      // The pattern is refused with a named error, as intended.
    } catch (const WorkLimitReached&) {
      // The pattern is too expensive.
    }
  }
  try {
    check_spec({.kind = OutputSpec::Kind::regex, .text = std::string(input)});
    require(input.size() <= kMaxSpecBytes, "a long pattern is refused");
  } catch (const InvalidArgument&) {
  }
}

}  // namespace reprise::fuzz
