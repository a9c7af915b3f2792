#pragma once

#include <memory>

#include "reprise/api/loaded_engine.h"
#include "reprise/speculative/drafter.h"

/// The second model of --speculative-config (a draft model, or a draft head) as an engine without
/// text and core.
namespace reprise::api {

/// The options of that model. nullptr: drafts need no model. May set what the main model gives to a
/// head in the options of `main`. \throws InvalidArgument, FileError
[[nodiscard]] std::unique_ptr<LoadedEngine> resolve_draft_engine(LoadedEngine& main);

/// Gives the cache of the draft model as many blocks as that of the main model; that of a draft
/// head gets its scratch blocks too. \pre the size of the main model's cache is in its report
void size_draft_cache(const LoadedEngine& main, LoadedEngine& draft);

/// What proposes drafts. `draft`: with its runner; nullptr if drafts need no model. nullptr: there
/// are no drafts.
[[nodiscard]] std::unique_ptr<speculative::Drafter> create_drafter(const LoadedEngine& main,
                                                                   LoadedEngine* draft);

}  // namespace reprise::api
