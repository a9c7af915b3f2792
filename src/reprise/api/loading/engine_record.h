#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/base/json.h"

/// Descriptions of engines, from which an engine like them can be made.
namespace reprise::api {

struct LoadedEngine;

/// The options of an engine, as far as they decide about its graphs and its answers.
[[nodiscard]] Json args_to_json(const LoadedEngine& engine);
/// \throws Json::exception
[[nodiscard]] EngineArgs args_from_json(const Json& json);

/// The engine's line of a replay log: "at" (UTC), "version", "options" (args_to_json), and "bits":
/// what can change the bits of an answer besides weights and program.
[[nodiscard]] Json engine_record(const LoadedEngine& engine);
/// Adds "files", digests of all files of the model, and "build", a digest of this program. Reads
/// all these files completely.
void add_file_digests(const std::filesystem::path& model, Json& record);

/// The options of an engine like that of a record: with its instruction set, if this CPU has it.
/// \throws Json::exception
[[nodiscard]] EngineArgs args_of_record(const Json& record);

/// Reasons for which the answers of two engines may differ, most likely first: a sentence for each
/// difference between their records. If there is none, one sentence that says so.
[[nodiscard]] std::vector<std::string> likely_causes(const Json& logged, const Json& replayed);

}  // namespace reprise::api
