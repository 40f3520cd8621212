/** The URL of a store as it may be shown: without the passwords in it. */

/** `instead` stands for the password; of the URL to listen on, which has one too, nothing is shown. */
export function withoutPassword(url: string, instead: '' | ':…'): string {
  return (
    url
      .replace(/([?&]wake=)(?!off(?:&|$))[^&]*/, '$1…')
      // Also where it cannot be read: there the password is whatever stands before the last @.
      .replace(/^(\w+:\/\/[^:@/?]*):.*@/, `$1${instead}@`)
  )
}

/** The same server, asked only with the user and password that the URL itself names. A path stays as it is. */
export function withOwnCredentials(url: string): string {
  if (!/^\w+:\/\//.test(url)) return url
  return `${url}${url.includes('?') ? '&' : '?'}auth=url`
}
