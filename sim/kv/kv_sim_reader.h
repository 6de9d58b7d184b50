/* kv_sim_reader.h — a reader beside the workers of a simulated deployment (kv_deployment.h): it pulls the tables again
 * and again.
 *
 * Checked  a pull of a table with rounds shows the weights of one step, all of them; of none that is older than the
 *          steps whose pushes a rank knew to be counted when the pull was made;
 *          without rounds a pull shows no push twice. */
#pragma once
#include "sim/kv/kv_deployment.h"

extern const sim_program kv_sim_reader_program; /* its argument is the kv_deployment_site of the reader */

/* Whether the reader has seen the weights after the last step in every table with rounds, and pulled the others. */
bool kv_sim_reader_is_done(const kv_deployment_site *site);
void kv_sim_reader_why(const kv_deployment_site *site, char *text, size_t size);
