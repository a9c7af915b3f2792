#include "tests/support/source_dir.h"

namespace reprise {

std::string source_dir() { return REPRISE_SOURCE_DIR; }

}  // namespace reprise
