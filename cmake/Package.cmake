# What packages have beside the program, and how CPack makes them; scripts/package.sh runs it. One archive and one .deb serve
# every Linux with glibc 2.34 and the libstdc++ of GCC 12: Debian 12, Ubuntu 22.04, Fedora 36 and newer ones.

# Those that every Linux with a package manager has. Another libstdc++ or libc in one process would be worse than none.
install(RUNTIME_DEPENDENCY_SET shared_libraries
        PRE_EXCLUDE_REGEXES [[^ld-linux]] [[^lib(c|m|dl|rt|pthread|gcc_s)\.so]] [[^libstdc\+\+\.so]]
        LIBRARY DESTINATION ${libraries_folder} COMPONENT shared_libraries EXCLUDE_FROM_ALL)

# Manual pages and completions, which the program writes.
if(NOT CMAKE_CROSSCOMPILING)
  install(CODE "
    execute_process(
      COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:reprise> -DFOLDER=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share
              -P ${PROJECT_SOURCE_DIR}/cmake/WriteManuals.cmake
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT manuals)
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/reprise-tiny DESTINATION share/reprise/models
        COMPONENT models EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/reprise COMPONENT licences EXCLUDE_FROM_ALL)
install(DIRECTORY ${PROJECT_BINARY_DIR}/licences/ DESTINATION share/doc/reprise/third-party
        COMPONENT licences EXCLUDE_FROM_ALL OPTIONAL)
install(FILES ${PROJECT_SOURCE_DIR}/deploy/systemd/reprise@.service DESTINATION share/doc/reprise/examples
        COMPONENT licences EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_COMPONENTS_ALL program c shared_libraries manuals models licences)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_NAME reprise)
set(CPACK_PACKAGE_VENDOR "The developers of Reprise")
set(CPACK_PACKAGE_CONTACT "The developers of Reprise <reprise@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM engine and server that replays captured graphs")
set(CPACK_PACKAGE_DESCRIPTION
    "Serves models over the OpenAI API with vLLM's flags and metrics, on CPUs and NVIDIA GPUs. Reads folders of
safetensors and GGUF files. Has a small model to try it with.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_FILE_NAME reprise-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.34), libstdc++6 (>= 12), libgcc-s1")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, libzmq5")
# CPack would build everything first, tests included; scripts/package.sh builds what it packs.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
