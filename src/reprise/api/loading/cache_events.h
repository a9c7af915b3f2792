#pragma once

namespace reprise::api {

struct LoadedEngine;

/// Opens the sockets of EngineArgs::kv_events, if it publishes, and makes event_publisher and
/// event_recorder of the engine. `is_caching`: whether prefixes are cached at all. Adds what an
/// operator should know to the warnings of the report.
/// \throws InvalidArgument when the sockets cannot be opened
void open_event_publisher(LoadedEngine& engine, bool is_caching);

}  // namespace reprise::api
