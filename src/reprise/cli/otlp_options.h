#pragma once

#include <memory>
#include <string>

#include "reprise/base/log.h"
#include "reprise/cli/option_table.h"
#include "reprise/server/tracing/tracer.h"

namespace reprise::cli {

/// The options of `serve` about traces.
struct OtlpOptions {
  std::string endpoint;  // empty: no traces
};

/// \pre `options` outlives the table
void add_otlp_options(OptionTable& table, OtlpOptions& options);

/// Reads the variables of OpenTelemetry. Null without an endpoint. `log` gets a message for each
/// batch that the collector did not accept. \throws InvalidArgument for a protocol, an endpoint or
/// a variable that does not fit
[[nodiscard]] std::shared_ptr<server::Tracer> make_tracer(const OtlpOptions& options,
                                                          const Log& log);

}  // namespace reprise::cli
