#include "reprise/cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "reprise/cli/environment.h"

namespace reprise::cli {

bool notify_service_manager(std::string_view state) {
  const std::string path = look_up_process_environment("NOTIFY_SOCKET").value_or("");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return false;
  std::ranges::copy(path, address.sun_path);
  // An abstract socket has no file. Its name begins with a null byte and is not null-terminated:
  // its length ends it.
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_fd < 0) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const ssize_t num_sent = sendto(socket_fd,
                                  state.data(),
                                  state.size(),
                                  MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&address),
                                  size);
  close(socket_fd);
  return std::cmp_equal(num_sent, state.size());
}

}  // namespace reprise::cli
