#pragma once

#include <memory>

#include "reprise/base/json.h"
#include "reprise/structured_output/answer_program.h"

namespace reprise::structured_output {

/// The data that the texts of all programs share, and the limit of the compilation.
struct TextSettings {
  WorkLimit* limit = nullptr;                 // null: none
  std::shared_ptr<const Automaton> any_text;  // every text
  size_t max_token_characters = 0;
};

/// Adds the values of a JSON schema (drafts 4 to 2020-12) to `program`. Each answer that the nodes
/// write is valid under the schema. They may write less: objects with `properties` have only these
/// members unless `additionalProperties` is a schema, members come in the order of the schema, and
/// texts with conditions have one spelling. \throws InvalidArgument with the place when the text is
/// not a schema, is too large, allows no value, or says something that cannot be held
[[nodiscard]] NodeId compile_schema(AnswerProgram& program,
                                    const Json& schema,
                                    const TextSettings& settings);

}  // namespace reprise::structured_output
