#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "reprise/hub/download/hub_connection.h"
#include "reprise/hub/download/listing.h"

namespace reprise::hub {

/// The paths at which the content of one file is stored.
struct BlobPlace {
  std::filesystem::path blobs;  // the repository's folder of contents
  std::filesystem::path lock;   // the file that huggingface_hub locks for the same content
};

struct TransferObserver {
  /// Gets the number of bytes that were added on disk; negative when bytes had to be given up.
  std::function<void(int64_t bytes)> on_bytes;
  std::function<void(std::string_view message)> on_message;
};

/// The bytes of the file that are on disk already, so they need not be sent again.
[[nodiscard]] uint64_t bytes_on_disk(const RepositoryFile& file, const BlobPlace& place);

/// Puts the file's content into `blobs`, under its hash. What an earlier attempt left in
/// HASH.incomplete is kept, and only the rest is asked for. The content gets its final name only
/// after its hash was found right. Waits while another process fetches the same content. The
/// process may be killed at any moment: the next call goes on.
/// \throws InvalidArgument, Error as HubConnection::refuse(); Error for a server that sends another
/// content than its listing names, and for a full disk
void fetch_blob(const HubConnection& hub,
                const std::string& target,
                const RepositoryFile& file,
                const BlobPlace& place,
                const TransferObserver& observer);

}  // namespace reprise::hub
