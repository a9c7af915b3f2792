#pragma once

#include <optional>
#include <string>

#include "reprise/server/openai/request_fields.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::server {

/// What an answer has to look like, and the field that said so.
struct AskedOutput {
  structured_output::OutputSpec spec;
  std::string field;
};

/// Of response_format, structured_outputs and the older guided_*; nothing: any text.
/// \throws ApiError 400 for more than one of them, or one that is malformed
[[nodiscard]] std::optional<AskedOutput> read_asked_output(const RequestFields& fields);

}  // namespace reprise::server
