#pragma once

#include "reprise/server/http/router.h"

namespace reprise::server {

/// The chat page at / and what it loads. Open: the page itself asks for a key.
void add_page_routes(Router& router);

}  // namespace reprise::server
