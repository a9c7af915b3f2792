#pragma once

#include "reprise/server/http/router.h"

namespace reprise::server {

/// Adds the chat page at / and the files it loads. These routes need no key: the page itself asks
/// for one.
void add_page_routes(Router& router);

}  // namespace reprise::server
