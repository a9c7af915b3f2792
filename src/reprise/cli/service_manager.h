#pragma once

#include <string_view>

namespace reprise::cli {

/// Sends a state such as "READY=1" to the service manager that started this process, as systemd's
/// sd_notify does: one datagram to the socket that $NOTIFY_SOCKET names. Without this variable, or
/// if the socket cannot be reached, it does nothing: the server serves either way.
/// Returns whether the state was sent.
bool notify_service_manager(std::string_view state);

}  // namespace reprise::cli
