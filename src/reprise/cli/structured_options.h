#pragma once

#include "reprise/cli/option_table.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {

/// Adds --structured-outputs-config and vLLM's older flags about structured outputs.
void add_structured_options(OptionTable& table, server::ServerOptions& options);

/// Sets the parser of reasoning by its name or "auto". \throws InvalidArgument with the known names
void set_reasoning_parser(server::AnswerReaderOptions& answers, std::string_view name);

}  // namespace reprise::cli
