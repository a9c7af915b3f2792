#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/models/parameters.h"
#include "reprise/weights/packed_copy/packed_copy.h"

namespace reprise::api {

/// The folder of packed copies that a value of --packed-weights-cache names: "none" gives none,
/// "auto" the folder beside the compile cache, anything else is the folder. \throws InvalidArgument
/// if there is no folder for "auto"
[[nodiscard]] std::filesystem::path packed_weights_folder(const std::string& value);

/// The copy of an engine's weights in the form in which kernels read them, kept in a file
/// (--packed-weights-cache). Without the option, or where it has no effect, it does nothing.
/// Borrows the device and the report, to which it adds warnings and its outcome.
class PackedWeights {
 public:
  PackedWeights(const EngineArgs& args,
                const ResolvedOptions& options,
                EngineDevice& device,
                StartupReport& report);

  /// Lets `parameters` map the weights instead of reading them, if there is a copy that was made
  /// from the same files. \pre nothing is loaded yet
  void lend_to(models::Parameters& parameters);
  /// Writes the copy if a weight had to be read. \pre everything is loaded
  void keep(const models::Parameters& parameters);

 private:
  StartupReport* report_;
  weights::RunParts run_parts_;
  std::optional<weights::PackedCopyFile> file_;  // unset: there is no copy, and none is made
  std::string why_not_mapped_;
};

}  // namespace reprise::api
