#pragma once

namespace reprise::api {

struct LoadedEngine;

/// Opens the sockets of EngineArgs::kv_events, if events are published, and makes event_publisher
/// and event_recorder of the engine. `is_caching`: whether prefixes are cached at all. Adds notes
/// for an operator to the warnings of the report. \throws InvalidArgument when the sockets cannot
/// be opened
void open_event_publisher(LoadedEngine& engine, bool is_caching);

}  // namespace reprise::api
