# `cmake --install build/release --prefix FOLDER`: the program, its plug-ins, and the libraries that an engine
# embeds, for `find_package(Reprise)`. Included after all folders.
include(CMakePackageConfigHelpers)
set(package_folder lib/cmake/Reprise)

# Packages have the shared libraries that they need in lib/reprise. An installation finds none there.
set(libraries_folder lib/reprise)
if(TARGET reprise)
  set_target_properties(reprise PROPERTIES INSTALL_RPATH "$ORIGIN/../${libraries_folder}")
  install(TARGETS reprise RUNTIME_DEPENDENCY_SET shared_libraries RUNTIME DESTINATION bin COMPONENT program)
endif()
# The program looks for its plug-ins in its own folder and in ../lib.
foreach(plugin reprise_codegen_llvm reprise_cuda)
  if(TARGET ${plugin})
    set_target_properties(${plugin} PROPERTIES INSTALL_RPATH "$ORIGIN/reprise")
    install(TARGETS ${plugin} RUNTIME_DEPENDENCY_SET shared_libraries LIBRARY DESTINATION lib COMPONENT program)
  endif()
endforeach()
# Uses the Open MPI of the machine, because its processes talk to the machine's mpirun.
if(TARGET reprise_mpi)
  set_target_properties(reprise_mpi PROPERTIES INSTALL_RPATH "$ORIGIN/reprise")
  install(TARGETS reprise_mpi LIBRARY DESTINATION lib COMPONENT program)
endif()

# The C interface, where the target reprise_c was built.
if(TARGET reprise_c)
  set_target_properties(reprise_c PROPERTIES INSTALL_RPATH "$ORIGIN/reprise")
  install(TARGETS reprise_c LIBRARY DESTINATION lib COMPONENT c OPTIONAL)
  install(FILES src/reprise/c/reprise.h DESTINATION include COMPONENT c)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/reprise.pc DESTINATION lib/pkgconfig COMPONENT c)
endif()

if(TARGET reprise)
  include(cmake/Package.cmake)
endif()

# reprise_add_installed(TARGET) installs the library and all libraries of this project that it links.
set(installed "")
function(reprise_add_installed target)
  if(target IN_LIST installed)
    return()
  endif()
  list(APPEND installed ${target})
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(linked ${target} ${property})
    foreach(library ${linked})
      if(library MATCHES "^reprise_|^xgrammar$" AND TARGET ${library})
        reprise_add_installed(${library})
      endif()
    endforeach()
  endforeach()
  set(installed ${installed} PARENT_SCOPE)
endfunction()
foreach(root reprise_cudagraph reprise_config reprise_api)
  if(TARGET ${root})
    reprise_add_installed(${root})
  endif()
endforeach()
foreach(target ${installed})
  string(REGEX REPLACE "^reprise_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
if(NOT installed)
  return()  # a build of some folders, without the libraries that engines embed
endif()
install(TARGETS ${installed} EXPORT RepriseTargets ARCHIVE DESTINATION lib COMPONENT libraries)
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${package_folder} COMPONENT libraries)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/reprise DESTINATION include COMPONENT libraries
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inl" PATTERN "cli" EXCLUDE PATTERN "c" EXCLUDE PATTERN "bench" EXCLUDE
        PATTERN "server" EXCLUDE PATTERN "python" EXCLUDE PATTERN "llvm" EXCLUDE)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/RepriseConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/FindLibrary.cmake
              ${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT libraries)
