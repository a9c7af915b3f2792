#pragma once

#include <optional>
#include <string>

#include "reprise/server/openai/request_fields.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::server {

/// The required form of an answer, and the field that asked for it.
struct AskedOutput {
  structured_output::OutputSpec spec;
  std::string field;
};

/// Reads response_format, structured_outputs and the older guided_* fields; nullopt: any text is
/// allowed. \throws ApiError 400 for more than one of them, or for a malformed one
[[nodiscard]] std::optional<AskedOutput> read_asked_output(const RequestFields& fields);

}  // namespace reprise::server
