#include "reprise/base/error.h"
#include "reprise/structured_output/regex_dialect.h"
#include "reprise/structured_output/spec_compiler.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void schema(std::string_view input) {
  using namespace structured_output;
  for (const OutputSpec::Kind kind :
       {OutputSpec::Kind::json_schema, OutputSpec::Kind::structural_tag}) {
    try {
      structured_output::WorkLimit limit{.num_steps_left = 1 << 16};
      RegexTerms terms;
      const TermId any = length_term(terms, 0, {});
      const OutputSpec spec{.kind = kind, .text = std::string(input)};
      check_spec(spec);
      const auto program =
          compile_spec(spec,
                       {.limit = &limit,
                        .any_text = std::make_shared<const Automaton>(Automaton::of(terms, any)),
                        .max_token_characters = 16});
      require(program->root != NodeId::none, "a compiled schema has a root");
    } catch (const InvalidArgument&) {
      // The schema is refused with a named error, as intended.
    } catch (const WorkLimitReached&) {
      // The schema is too expensive.
    }
  }
}

}  // namespace reprise::fuzz
