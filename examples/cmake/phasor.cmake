# Phasor from its sources in a CMake project: include(…/examples/cmake/phasor.cmake), then target_link_libraries(yours phasor::phasor).
get_filename_component(PHASOR_ROOT "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
add_subdirectory("${PHASOR_ROOT}" phasor)
